"""Collective and kernel rows: conversions, openings, reasons."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.validation.run import validate


def collective(**changes: Any) -> dict[str, Any]:
    return {"id": "c", "op": "all_reduce", "device": "H100-SXM-80GB", "n": 8, "nodes": 1, "per_node": 8, "bytes": 2**30,
            "busbw_GBps": 480.0, "time_us": 3915.0, "kind": "measured", "intra_node": "NVLink4", "inter_node": None,
            **changes}  # fmt: skip


def kernel(**changes: Any) -> dict[str, Any]:
    return {"id": "k", "op": "matmul", "device": "A100-SXM-80GB", "m": 8192, "n": 8192, "k": 8192, "dtype": "bf16",
            "tflops": 250.0, "time_us": None, "kind": "measured", **changes}  # fmt: skip


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
    [({"op": "moe_dispatch"}, "not one of the collectives"), ({"bytes": None}, "not stated"),
     ({"kind": "fraction of peak bandwidth"}, "not a single measurement"),
     ({"device": "unstated (A100?)"}, "catalogue")],
)  # fmt: skip
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
    [({"k": None}, "three dimensions"), ({"dtype": None}, "number format"), ({"op": "mlp_act"}, "bytes"),
     ({"op": "attention_fwd"}, "not stated")],
)  # fmt: skip
def test_kernels_that_cannot_be_expressed(changes: dict[str, Any], reason: str) -> None:
    outcome = only(kernel(**changes))
    assert outcome.predicted is None and reason in outcome.reason
