"""One training step: accounting, laws, determinism and what bad plans are told."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.network.coefficients import LinkFamily, NetworkCoefficients
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.prepare_step import prepare as prepare_parts
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.simulate_step import step_time

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def small(plan: dict[str, Any] | None = None, *, nodes: int = 2, batch: int = 32, **training: Any) -> dict[str, Any]:
    """A model of eight layers on a few nodes: quick, and everything in it counts."""
    return {
        "model": {
            "name": "small",
            "hidden_size": 2048,
            "num_hidden_layers": 8,
            "vocab_size": 32000,
            "num_attention_heads": 16,
            "intermediate_size": 5632,
        },
        "cluster": {"device": "h100-sxm-80gb", "nodes": nodes, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": batch, **training},
        "plan": plan or {},
    }


def predicted(source: Any, **options: Any) -> TrainingResult:
    return api.simulate_training(source, sensitivities=False, **options)


PLANS: list[dict[str, Any]] = [
    {},
    {"tp": 8, "mbs": 2},
    {"pp": 4, "tp": 2},
    {"pp": 4, "vpp": 2, "cp": 2},
    {"zero": 3},
    {"zero": 3, "tp": 2, "recompute": "full"},
    {"pp": 2, "schedule": "zb_h1"},
    {"pp": 2, "tp": 2, "overlap": False},
    {"tp": 2, "sp": False, "cp": 2, "recompute": "selective"},
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_breakdown_and_memory_add_up(plan: dict[str, Any]) -> None:
    result = predicted(small(plan))
    assert sum(result.breakdown.values()) == pytest.approx(result.step_time_s, rel=1e-9)
    assert min(result.breakdown.values()) >= 0
    assert sum(result.memory.at_peak.values()) == pytest.approx(result.peak_memory_allocated_bytes, rel=1e-9)
    assert result.memory.curve_bytes.max() == pytest.approx(result.peak_memory_allocated_bytes, rel=1e-9)
    assert result.peak_memory_reserved_bytes >= result.peak_memory_allocated_bytes
    assert result.hfu <= 1 and 0 < result.mfu <= 1
    assert result.tokens_per_s * result.step_time_s == pytest.approx(32 * 2048, rel=1e-12)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_breakdown_of_the_examples_adds_up(path: Path) -> None:
    result = predicted(path)
    assert sum(result.breakdown.values()) == pytest.approx(result.step_time_s, rel=1e-9)
    assert result.interval.low <= result.step_time_s <= result.interval.high


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_same_scenario_gives_the_same_bits(plan: dict[str, Any]) -> None:
    first, second = (predicted(small(plan), trace=True) for _ in range(2))
    assert (first.step_time_s, first.breakdown, first.input_hash) == (
        second.step_time_s,
        second.breakdown,
        second.input_hash,
    )
    assert first.trace is not None and second.trace is not None
    assert np.array_equal(first.trace.start_s, second.trace.start_s)
    assert np.array_equal(first.memory.curve_bytes, second.memory.curve_bytes)


def test_recording_the_trace_changes_nothing() -> None:
    plan = {"pp": 4, "tp": 2}
    assert predicted(small(plan), trace=True).step_time_s == predicted(small(plan)).step_time_s


# -- laws


def scaled(
    cluster: ClusterSpec, rate: float = 1.0, memory: float = 1.0, up: float = 1.0, out: float = 1.0
) -> ClusterSpec:
    """The cluster with faster parts."""
    device = cluster.device.model_copy(
        update={
            "peak_flop_per_s": {k: v * rate for k, v in cluster.device.peak_flop_per_s.items()},
            "tdp_w": cluster.device.tdp_w and cluster.device.tdp_w * rate,
            "memory_bytes_per_s": cluster.device.memory_bytes_per_s * memory,
            "pcie_bytes_per_s": cluster.device.pcie_bytes_per_s * rate,
        }
    )
    nic = cluster.scale_out.nic_bytes_per_s
    return cluster.model_copy(
        update={
            "device": device,
            "scale_up": cluster.scale_up.model_copy(update={"bytes_per_s": cluster.scale_up.bytes_per_s * up}),
            "scale_out": cluster.scale_out.model_copy(update={"nic_bytes_per_s": nic * out}),
        }
    )


@pytest.mark.parametrize("plan", [{}, {"tp": 4}, {"tp": 2, "cp": 2}, {"zero": 3}, {"zero": 0, "mbs": 2}], ids=str)
@pytest.mark.parametrize("part", ["rate", "memory", "up", "out"])
def test_faster_parts_never_slow_a_step_without_pipeline_and_overlap(plan: dict[str, Any], part: str) -> None:
    prepared, scenario = api.prepare(small(plan | {"overlap": False}))
    assert scenario.training is not None
    times = []
    for factor in (1.0, 1.1, 1.7, 3.0, 10.0):
        cluster = scaled(prepared.cluster, **{part: factor})
        times.append(step_time(prepare_parts(prepared.model, cluster, scenario.training, scenario.plan)))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(times)), times
    if part == "rate":
        assert times[-1] < times[0]


@pytest.mark.parametrize("plan", [{}, {"pp": 2}, {"pp": 4, "vpp": 2}, {"pp": 4, "schedule": "zb_h1"}], ids=str)
@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_doubling_all_capacities_and_halving_all_latencies_halves_the_time(
    plan: dict[str, Any], factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipelines of single devices: no collectives, because NCCL's choice of algorithm has constants of its own."""
    source = small(plan, nodes=1)
    source["cluster"]["devices_per_node"] = plan.get("pp", 1)
    prepared, scenario = api.prepare(source)
    assert scenario.training is not None
    base = step_time(prepared)
    usual = NetworkCoefficients.for_cluster

    def quick_family(family: LinkFamily) -> LinkFamily:
        hops = tuple(h / factor for h in family.hop_s)
        return replace(family, hop_s=hops, tau_s=family.tau_s / factor, net_latency_s=family.net_latency_s / factor)

    def quick(cluster: ClusterSpec) -> NetworkCoefficients:
        c = usual(cluster)
        times = {name: getattr(c, name) / factor for name in ("p2p_base_s", "p2p_tau_s", "peer_s", "torus_base_s")}
        return replace(c, up=quick_family(c.up), out=quick_family(c.out), **times)

    monkeypatch.setattr(NetworkCoefficients, "for_cluster", quick)
    seconds = [name for name in prepared.coefficients.__slots__ if name.endswith("_s")]
    assert {"host_kernel_s", "gemm_floor_s", "step_overhead_s"} <= set(seconds)
    slower = {name: getattr(prepared.coefficients, name) / factor for name in seconds}
    cluster = scaled(prepared.cluster, factor, factor, factor, factor)
    again = prepare_parts(prepared.model, cluster, scenario.training, scenario.plan, coefficient_overrides=slower)
    assert step_time(again) == pytest.approx(base / factor, rel=1e-9)


def test_work_is_linear_in_micro_batches_without_a_pipeline() -> None:
    """Seconds of m micro-batches lie on a line: the same kernels run m times, the rest once."""
    times = [step_time(api.prepare(small({"zero": 0}, nodes=1, batch=8 * m))[0]) for m in (4, 8, 16)]
    assert times[2] - times[1] == pytest.approx(2 * (times[1] - times[0]), rel=1e-6)


def test_a_pipeline_without_bubble_costs_is_bounded_by_its_stages() -> None:
    """1F1B: at least m times the slowest stage; at most that and the ramp of p − 1 stages."""
    prepared, _ = api.prepare(small({"pp": 4, "dp": 1, "tp": 4, "overlap": False}))
    stage = prepared.stages.seconds.sum(axis=0)
    m, p = prepared.plan.m, prepared.plan.pp
    time = step_time(prepared)
    assert time >= m * stage.max() * (1 - 1e-12)
    assert time <= (m + p - 1) * stage.max() * 1.15 + 0.05


# -- bad plans


def problems_of(source: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        predicted(source)
    return {p.field: p.rule for p in caught.value.problems}


@pytest.mark.parametrize(
    ("batch", "mbs", "nearest"), [(30, 1, "16 and 32"), (33, 1, "32 and 48"), (32, 3, "48 and 96"), (5, 1, "16 and 32")]
)
def test_an_indivisible_batch_is_told_the_nearest_ones(batch: int, mbs: int, nearest: str) -> None:
    rule = problems_of(small({"mbs": mbs}, batch=batch))["training.global_batch"]
    assert f"mbs · dp = {mbs} · 16 = {16 * mbs}" in rule
    assert rule.endswith(f"nearest are {nearest}")


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ({"tp": 3}, "plan"),
        ({"tp": 3}, "plan.tp"),
        ({"dp": 3}, "plan.dp"),
        ({"ep": 2}, "plan.ep"),
        ({"vpp": 2}, "plan.vpp"),
        ({"pp": 16}, "plan.pp"),
        ({"pp": 4, "stage_layers": [1, 2, 3]}, "plan.stage_layers"),
        ({"pp": 4, "stage_layers": [1, 2, 3, 4]}, "plan.stage_layers"),
        ({"shard_group": 3, "zero": 3}, "plan.shard_group"),
        ({"cp": 2, "cp_kind": "hybrid", "cp_all_to_all": 3}, "plan.cp_all_to_all"),
    ],
)
def test_rules_of_a_plan(plan: dict[str, Any], field: str) -> None:
    assert field in problems_of(small(plan))


def test_mistakes_of_one_stage_are_all_told_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """\
model: meta-llama/Llama-3.1-70B
cluster:
  device: h100-sxm-80gb
  nodes: 8
  memory_bytes: 80 GBB
training:
  seq_len: 8192
  global_batch: 127
  precison: bf16
plan:
  tp: 3
  pp: 4
  cp: 3
techniques: [zb-h9]
"""
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        api.simulate_training(file)
    assert [(p.field, p.line) for p in caught.value.problems] == [("cluster.memory_bytes", 5), ("training.precison", 9)]

    file.write_text(text.replace("80 GBB", "80 GB").replace("precison", "precision"))
    with pytest.raises(BadInput) as caught:
        api.simulate_training(file)
    found = {p.field: p.line for p in caught.value.problems}
    assert found["plan.tp"] == 11 and found["plan.cp"] == 13
    assert found.get("techniques", found.get("techniques.0")) == 14
    assert all(p.file == str(file) for p in caught.value.problems)

    assert run(["train", str(file)]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert len(lines) == len(found) and all(line.startswith("error: ") for line in lines)
    assert any(f"({file}:11)" in line for line in lines)


def test_a_mistake_in_a_model_file_names_that_file(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        '{"model_type": "llama", "hidden_size": 100, "num_hidden_layers": 2, "vocab_size": 10,\n'
        '"num_attention_heads": 3, "num_key_value_heads": 2, "intermediate_size": 8, "hidden_act": "silu"}'
    )
    file = tmp_path / "s.yaml"
    file.write_text("model: {config: config.json}\ncluster: nowhere\ntraining: {seq_len: 8, global_batch: 8}\n")
    with pytest.raises(BadInput) as caught:
        api.simulate_training(file)
    text = str(caught.value)
    assert f"model.num_attention_heads = 3: must divide hidden_size 100 unless head_dim is given ({config}:2)" in text
    assert f"({config}:2)" in text.splitlines()[1] and "num_key_value_heads" in text
    assert "nowhere" in text, "the cluster's problem is told beside the model's"


# -- fit


def test_fit_finds_the_largest_micro_batch_and_the_fewest_devices() -> None:
    from windtunnel.training.simulate_step import memory_of

    source = small({"tp": 2}, seq_len=8192, batch=64)
    source["model"] |= {"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336}
    source["training"]["seq_len"] = 8192
    answer = api.fit(source)
    assert answer.largest_mbs is not None and answer.fewest_devices is not None
    replicas = 64 // 8
    sizes = [b for b in range(1, replicas + 1) if replicas % b == 0]
    fits = {b: memory_of(api.prepare(source, overrides=[f"plan.mbs={b}"])[0]).fits for b in sizes}
    assert answer.largest_mbs == max(b for b, fit in fits.items() if fit)
    assert answer.fits == (answer.over_bytes == 0.0) == fits[1]


def test_fit_says_by_how_much_a_plan_does_not_fit() -> None:
    answer = api.fit(next(p for p in EXAMPLES if "does-not-fit" in p.name))
    assert not answer.fits
    assert answer.over_bytes == pytest.approx(answer.reserved_bytes - answer.capacity_bytes)
    assert answer.fewest_devices is None or answer.fewest_devices > 8
