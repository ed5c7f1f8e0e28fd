"""Shares of a batch by what groups take, and what Holmes and Cephalo make of mixed clusters."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.techniques.limits import limits_in_file, merged, with_technique
from windtunnel.training.heterogeneous.batch_shares import balanced_shares, splits

DECLARED = limits_in_file("cephalo")
assert DECLARED is not None
MIXED = DECLARED.scenario


def test_splits_use_the_whole_batch() -> None:
    assert list(splits((2, 1), 5)) == [(1, 3), (2, 1)]
    assert balanced_shares((1.0, 3.0), (1, 1), 8, 1) == (6, 2)
    assert balanced_shares((1.0, 1.0), (2, 2), 7, 1) is None


def run(change: dict[str, Any]) -> Any:
    return api.simulate_training(merged(MIXED, change), sensitivities=False)


def test_balanced_is_the_best_of_all_shares() -> None:
    shares = [(m, 32 - m) for m in (8, 12, 16, 18, 20, 22, 24, 26, 28)]
    times = {s: run({"plan": {"batch_shares": s}}).step_time_s for s in shares}
    balanced = run({"plan": {"batch_shares": "balanced"}})
    assert balanced.step_time_s <= 1.02 * min(times.values())
    micro_batches = [group["micro_batches"] for group in balanced.groups]
    assert sum(micro_batches) == 32 and micro_batches[0] > micro_batches[1]


def test_balanced_needs_groups() -> None:
    with pytest.raises(BadInput, match="needs groups"):
        alike = {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
        api.simulate_training(MIXED | {"cluster": alike, "plan": {"batch_shares": "balanced"}})


def test_with_holmes_gradients_stay_inside_their_network() -> None:
    wide = {"cluster": {"between": {"nic_bytes_per_s": "10 Gb/s"}}, "plan": {"zero": 1, "pp": 2, "tp": 2}}
    before = run(wide)
    after = api.simulate_training(with_technique(merged(MIXED, wide), "holmes"), sensitivities=False)
    assert after.plan["group_axis"] == "pp" and after.plan["pp"] == 2
    assert after.breakdown.get("exposed dp", 0.0) < 0.3 * before.breakdown["exposed dp"]
