"""Collective and kernel rows: conversions, openings, reasons."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.validation.predict.validate import validate


def collective(**changes: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "op": "all_reduce",
        "device": "H100-SXM-80GB",
        "n": 8,
        "nodes": 1,
        "per_node": 8,
        "bytes": 2**30,
        "busbw_GBps": 480.0,
        "time_us": 3915.0,
        "kind": "measured",
        "intra_node": "NVLink4",
        "inter_node": None,
        **changes,
    }


def kernel(**changes: Any) -> dict[str, Any]:
    return {
        "id": "k",
        "op": "matmul",
        "device": "A100-SXM-80GB",
        "m": 8192,
        "n": 8192,
        "k": 8192,
        "dtype": "bf16",
        "tflops": 250.0,
        "time_us": None,
        "kind": "measured",
        **changes,
    }


def only(row: dict[str, Any]) -> Any:
    (outcome,) = validate([row]).rows
    return outcome


def test_bus_bandwidth_and_time_are_one_prediction() -> None:
    time = only(collective())
    rate = only(collective(time_us=None))
    assert (time.metric, rate.metric) == ("time", "busbw_GBps")
    assert rate.predicted == pytest.approx(2 * 7 / 8 * 2**30 / time.predicted / 1e9)
    assert abs(time.error) < 0.3


def test_message_size_matters_and_more_nodes_cost_more() -> None:
    small, large = only(collective(bytes=2**24)), only(collective())
    assert small.predicted < large.predicted
    far = only(collective(n=32, nodes=4))
    assert far.predicted > large.predicted
    assert [field for field, _, _ in far.assumed] == ["cluster.scale_out"]
    assert only(collective(n=32, nodes=4, inter_node="8x400Gb/s NDR")).assumed == ()


def test_missing_node_count_is_an_assumption() -> None:
    assert "cluster.nodes" in [f for f, _, _ in only(collective(n=16, nodes=None)).assumed]
    assert only(collective(nodes=None)).assumed == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"op": "moe_dispatch"}, "not one of the collectives"),
        ({"bytes": None}, "not stated"),
        ({"kind": "fraction of peak bandwidth"}, "not a single measurement"),
        ({"device": "unstated (A100?)"}, "catalogue"),
    ],
)
def test_collectives_that_cannot_be_expressed(changes: dict[str, Any], reason: str) -> None:
    outcome = only(collective(**changes))
    assert outcome.predicted is None and reason in outcome.reason


def test_matrix_products_in_time_and_rate() -> None:
    rate = only(kernel())
    time = only(kernel(time_us=4400.0))
    assert rate.predicted == pytest.approx(2 * 8192**3 / time.predicted / 1e12)
    assert 200 < rate.predicted < 312


def test_attention_counts_the_full_square() -> None:
    """A causal kernel does half of the counted work, so the reported rate may pass the device's peak."""
    shape = {"op": "attention_fwd", "m": None, "n": None, "k": None, "seq_len": 8192, "heads": 64, "head_dim": 128}
    forward = only(kernel(**shape, tflops=300.0))
    backward = only(kernel(**{**shape, "op": "attention_bwd"}, tflops=200.0))
    assert forward.predicted > backward.predicted > 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"k": None}, "three dimensions"),
        ({"dtype": None}, "number format"),
        ({"op": "mlp_act"}, "bytes"),
        ({"op": "attention_fwd"}, "not stated"),
    ],
)
def test_kernels_that_cannot_be_expressed(changes: dict[str, Any], reason: str) -> None:
    outcome = only(kernel(**changes))
    assert outcome.predicted is None and reason in outcome.reason


def test_a_harness_reads_more_than_the_device_takes() -> None:
    """Timed call by call through a framework: its launch path; one thread for all devices: as fast as it launches."""
    small = {"bytes": 2**18, "time_us": 40.0}
    plain, bench, driven = (
        only(collective(**small, tool=tool)).predicted
        for tool in ("nccl-tests", "all_reduce_bench.py", "nccl-tests -g 8")
    )
    assert bench == pytest.approx(plain + 20e-6)
    assert driven == pytest.approx(48e-6)
    large = [only(collective(tool=tool)).predicted for tool in ("nccl-tests", "nccl-tests -g 8")]
    assert large[0] == large[1]


def test_pairs_of_hopper_cards_have_a_bridge_and_fours_have_pcie() -> None:
    pair, four = (
        only(collective(device="H100 pairwise NVLink", intra_node="NVLink pairs", n=n, per_node=n)) for n in (2, 4)
    )
    assert pair.device == four.device == "h100-pcie-80gb"
    rates = [2 * (n - 1) / n * 2**30 / row.predicted for n, row in ((2, pair), (4, four))]
    assert 200e9 < rates[0] < 300e9
    assert 40e9 < rates[1] < 63e9


def test_cards_of_a_cloud_machine_without_peer_access_copy_through_the_host() -> None:
    row = {"device": "V100-PCIE-16GB", "intra_node": "PCIe", "per_node": 4, "bytes": 2**28}
    inside, outside = only(collective(**row, n=4)), only(collective(**row, n=8, nodes=2))
    assert 1.5 * 2**28 / inside.predicted == pytest.approx(4.5e9, rel=0.05)
    assert 1.75 * 2**28 / outside.predicted < 1.25e9
    assert [field for field, _, _ in outside.assumed] == ["cluster.scale_out"]
