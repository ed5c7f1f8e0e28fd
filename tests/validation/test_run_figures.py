"""Runs beside what was published of them; bands stand in the issue and the research notes, nothing is fitted here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from windtunnel import api
from windtunnel.catalog.run_tables import failure_profile
from windtunnel.runs.checkpoint.tier_seconds import SAVE_OVERHEAD_S, WRITER_BYTES_PER_S, pipelined_s
from windtunnel.runs.event_loop.program import Job, Nodes, Program, Repair, Restart, Tiers
from windtunnel.runs.event_loop.replicate import Frailty, replications
from windtunnel.runs.failures import kinds_of
from windtunnel.runs.in_process_restart import in_process_restart_s
from windtunnel.specs.run import CheckpointTier

pytestmark = pytest.mark.validation


def test_the_base_case_of_airesim() -> None:
    """9,865.97 h for 6,144 h of work, 11,146 failures (docs/SIMULATION_REPORT.md); band 0.5 %."""
    profile = failure_profile("airesim-base")
    kinds = kinds_of(profile, (CheckpointTier(to="storage"),), 8)
    program = Program(
        Job(368640 * 60.0, 1.0, np.ones(1), math.inf, 0.0, 1e12),
        kinds,
        # their model loses no work: a copy of every moment at no cost
        Tiers(np.ones(1, np.int64), np.zeros(1), np.zeros(1), np.zeros(1), np.ones(1, np.int64)),
        Nodes(4096, 16, 48, 200, 1 << 30, 1, 1.0, False),
        Repair(7200.0, 172800.0, 0.8, 0.4, 0.2, 0, True, 0, 0.0),
        Restart(0.0, 1200.0, 0.0, 0.0, 0.0, 180.0, 1200.0, 0.0),
    )
    runs = list(replications(program, Frailty(0.0, profile.bad_node_share, profile.bad_node_factor), 30, 1))
    hours = np.mean([run.wall_s for run in runs]) / 3600
    assert hours == pytest.approx(9865.97, rel=5e-3)
    assert np.mean([run.counts.sum() for run in runs]) == pytest.approx(11145.6, rel=0.01)


@pytest.mark.parametrize(("devices", "published_h"), [(16384, 1.80), (131072, 0.225)])
def test_projections_of_rsc_1(devices: int, published_h: float) -> None:
    """Mean time between failures at 6.50 per 1,000 node-days (arXiv 2410.21680); band 3 %."""
    rate = kinds_of(failure_profile("rsc-1-2024"), (CheckpointTier(to="storage"),), 8).rate.sum()
    assert 1 / (rate * devices / 8) / 3600 == pytest.approx(published_h, rel=0.03)


def test_interruptions_of_llama_3() -> None:
    """419 unexpected interruptions in 54 days on 16,384 devices, and more than 90 % effective training time."""
    kinds = kinds_of(failure_profile("llama3-2024"), (CheckpointTier(to="storage"),), 8)
    groups = np.array([2048, 512, 1])[kinds.per]
    unexpected = ~kinds.drains
    assert (kinds.rate * groups)[unexpected].sum() * 54 * 86400 == pytest.approx(419, rel=0.01)
    result = api.simulate_run(
        {
            "model": "meta-llama/Llama-3.1-405B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 2048, "devices_per_node": 8},
            "training": {"seq_len": 8192, "global_batch": 2048, "framework": "megatron_core"},
            "plan": {"tp": 8, "pp": 16, "zero": 1, "mbs": 1},
            "run": {
                "tokens": "8T",
                "failures": "llama3-2024",
                "checkpoint": {
                    "tiers": [{"to": "host", "mode": "async"}, {"to": "storage", "mode": "async", "every": 4}]
                },
                "recovery": {"spares": 16},
                "replications": 40,
            },
        },
        sensitivities=False,
    )
    assert result.ettr["productive"] > 0.90


def test_the_save_overhead_of_bloom() -> None:
    """2.3 TB in 40 s every 100 iterations of 105 s: 0.38 % (chronicles of tr11-176B); band a fifth, bytes ours.

    The share is that of the measured iteration; ours is 14 % shorter, inside its band.
    """
    result = api.simulate_run(
        {
            "model": "bigscience/bloom",
            "cluster": {
                "device": "a100-sxm-80gb",
                "nodes": 48,
                "devices_per_node": 8,
                "scale_out": {"nics_per_node": 4, "nic_bytes_per_s": "12.5 GB/s", "family": "omni-path"},
            },
            "training": {"seq_len": 2048, "global_batch": 2048, "framework": "megatron_deepspeed"},
            "plan": {"tp": 4, "pp": 12, "zero": 1, "mbs": 2, "recompute": "full"},
            "run": {
                "steps": 2000,
                "failures": "none",
                "checkpoint": {"interval_steps": 100, "storage_write_bytes_per_s": 2.3e12 / 40},
                "replications": 1,
            },
        },
        sensitivities=False,
    )
    assert result.checkpoint["bytes"] == pytest.approx(2.3e12, rel=0.1)
    assert result.checkpoint["blocking_s"] / (100 * 105) == pytest.approx(0.0038, rel=0.2)
    assert result.interval["low"] < 2000 * 105 / 86400 < result.interval["high"]


def _byterobust(devices: int, tier: dict[str, object], storage_bytes_per_s: float | None = None) -> float:
    """Seconds that a save stops the steps: 70B, tensor and pipeline 8, distributed optimizer.

    The paper states neither the plan nor the storage. The plan is that of a node a pipeline stage; the storage is our
    default, which takes 1 GB/s from each node.
    """
    from windtunnel.runs.simulate import prepared_run

    scenario = {
        "model": "meta-llama/Llama-3.1-70B",
        "cluster": {"device": "l20-48gb", "nodes": devices // 8, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 2048, "framework": "megatron_core"},
        "plan": {"tp": 8, "pp": 8, "zero": 1, "mbs": 1},
        "run": {
            "steps": 100,
            "failures": "none",
            "checkpoint": {
                "interval_steps": 1,
                "tiers": [tier],
                "storage_write_bytes_per_s": storage_bytes_per_s,
            },
        },
    }
    return prepared_run(scenario).tiers[0].block_s


@pytest.mark.parametrize(
    ("devices", "published_s"),
    [
        (2048, 6.77),
        pytest.param(
            4096, 7.14, marks=pytest.mark.xfail(strict=True, reason="-29 %: our default storage grows with nodes")
        ),
    ],
)
def test_synchronous_saves_of_byterobust(devices: int, published_s: float) -> None:
    """A save of every step, Megatron's own (arXiv 2509.16293, table of checkpointing); band 20 %."""
    assert _byterobust(devices, {"to": "storage"}) == pytest.approx(published_s, rel=0.2)


@pytest.mark.parametrize("devices", [2048, 4096])
def test_one_storage_takes_a_save_of_twice_the_writers_hardly_longer(devices: int) -> None:
    """7.14 over 6.77 s: the bytes and the storage stay, the barriers of more nodes are added. The rate is not
    published; whichever of both clusters' default it is, the ratio is within 5 %."""
    rate = devices / 8 * 1e9
    small, large = (_byterobust(n, {"to": "storage"}, rate) for n in (2048, 4096))
    assert large / small == pytest.approx(7.14 / 6.77, rel=0.05)


@pytest.mark.parametrize(("devices", "published_s"), [(2048, 0.04), (4096, 0.03)])
def test_hidden_saves_of_byterobust(devices: int, published_s: float) -> None:
    """A copy behind forward and backward stops the steps for 0.03 to 0.04 s: in ours for none; band 0.05 s."""
    assert _byterobust(devices, {"to": "host", "mode": "lazy"}) == pytest.approx(published_s, abs=0.05)


@pytest.mark.parametrize(("devices", "published_s"), [(2048, 1.84), (4096, 1.69)])
def test_memory_saves_of_byterobust(devices: int, published_s: float) -> None:
    """A save to host memory that stops the steps; band 20 %. Every rank serialises what it holds, its weights and its
    part of the optimizer state (each shard once would be 0.07 s, the first replica alone 2.3 s)."""
    assert _byterobust(devices, {"to": "host", "pinned": False}) == pytest.approx(published_s, rel=0.2)


@pytest.mark.xfail(strict=True, reason="6.3 s for 0.7 GB a device is no rate of a link: staging costs of the framework")
def test_asynchronous_saves_of_pytorch() -> None:
    """7B on 128 A100, 148.8 s stopped by a synchronous save, 6.3 s by an asynchronous one; band 25 %."""
    from windtunnel.runs.simulate import prepared_run

    scenario = {
        "model": "meta-llama/Llama-2-7b-hf",
        "cluster": {"device": "a100-sxm-80gb", "nodes": 16, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 256, "framework": "torchtitan"},
        "plan": {"zero": 3, "mbs": 1},
        "run": {
            "steps": 100,
            "failures": "none",
            "checkpoint": {"interval_steps": 100, "tiers": [{"to": "storage", "mode": "async", "pinned": False}]},
        },
    }
    assert prepared_run(scenario).tiers[0].block_s == pytest.approx(6.3, rel=0.25)


def test_the_parts_of_a_restart_in_place() -> None:
    """Documentation of nvidia-resiliency-ext: 0.5 s, 0.01 s a pending kernel, 0.5 s, 0.5 s at 16,384 ranks, a step."""
    assert in_process_restart_s(16384, 5.0, pending_kernels=50) == pytest.approx(0.5 + 0.5 + 0.5 + 0.5 + 5.0)
    assert in_process_restart_s(128, 5.0, pending_kernels=0) == pytest.approx(0.5 + 0.5 + 0.25 + 5.0)


@pytest.mark.parametrize(("writers", "nodes", "published_s"), [(8, 2, 2.02), (8, 4, 1.29)])
def test_writers_of_torchsnapshot(writers: int, nodes: int, published_s: float) -> None:
    """20 GB to local drives by 1 to 32 writers (benchmarks/ddp/README.md); band a fifth.

    The rate of one writer is that of the table's first row, the rate of the node's drives that of its second.
    """
    link, drives = 12e9, 20e9 / (3.38 - SAVE_OVERHEAD_S)
    seconds = pipelined_s(writers, 20e9 / writers / nodes, link, drives, WRITER_BYTES_PER_S) + SAVE_OVERHEAD_S
    assert seconds == pytest.approx(published_s, rel=0.2)
