"""Experts and caches in host memory: what bounds a pass."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.limits import merged

TECHNIQUE = REGISTRY.get("moe-lens")

TECH = {"techniques": ["moe-lens"]}


def run(*changes: Any) -> Any:
    assert TECHNIQUE.limit_cases is not None
    case = merged(TECHNIQUE.limit_cases.scenario, {"serving": {"traffic": {"num_requests": 400, "output_tokens": 16}}})
    for change in changes:
        case = merged(case, change)
    return api.simulate_serving(case)


def test_a_pass_is_no_faster_than_its_experts_cross_pcie() -> None:
    """Mixtral's experts are 45 billion weights of two bytes; 93 % of them are on the host, and most are needed."""
    result = run(TECH)
    assert result.tpot_s.mean > 0.8 * 0.93 * 45e9 * 2 / 25e9
    assert result.tpot_s.mean < run().tpot_s.mean


def test_a_faster_link_helps_until_something_else_is_slower() -> None:
    rates = [
        run(
            {"techniques": [{"moe-lens": {"pcie_gb_per_s": gb}}]},
            {"serving": {"expert_storage": {"bytes_per_s": gb * 1e9}}},
        ).output_tokens_per_s
        for gb in (12.5, 25.0, 1000.0)
    ]
    assert rates[0] < rates[1] < rates[2]
    assert rates[1] > 1.5 * rates[0]
    assert rates[2] < 40.0 * rates[1]  # products and the host's memory bound it now


def test_it_says_where_it_does_not_apply() -> None:
    with pytest.raises(BadInput, match="moe-lens"):
        run({"serving": {"pools": [{"attention_pool": {"device": "cpu-generic", "nic_bytes_per_s": "25 GB/s"}}]}})
