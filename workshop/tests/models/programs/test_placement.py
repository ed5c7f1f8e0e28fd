"""Placements on device classes beside all placements tried one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput, Infeasible
from windtunnel.techniques.limits import merged
from windtunnel_lab.models.programs.placement import ToolPlace, least_cost

PRICES = (2.0, 1.0)
CORE = ToolPlace(name="core", seconds=0.8, usd_per_hour=0.05)
CARD = ToolPlace(name="card", seconds=0.1, usd_per_hour=0.9)
AGENT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {
        "groups": [
            {"device": device, "nodes": 1, "devices_per_node": 3, "price_per_device_hour": price}
            for device, price in zip(("h100-sxm-80gb", "a100-sxm-80gb"), PRICES, strict=True)
        ],
        "between": "2 x infiniband-hdr",
    },
    "programs": {
        "strategy": {
            "graph": {
                "nodes": [
                    {"id": "ask", "output_tokens": 40},
                    {"id": "look", "kind": "tool", "tool": "index", "after": ["ask"], "result_tokens": 3000},
                    {"id": "answer", "after": ["look"], "output_tokens": 120},
                ]
            }
        },
        "problems": 150,
        "rate_per_s": 12,
        "deadline_s": 3.0,
        "input_tokens": 400,
        "tools": {"index": {"seconds": 0.8, "distribution": "fixed"}},
    },
    "population": {"pass_1": 0.5, "concentration": 1.0},
}


def cost_of(scenario: dict[str, Any], pools: list[dict[str, Any]], place: ToolPlace) -> float:
    """USD an hour, infinite where the deadline is missed."""
    slots = -int(-12 * place.seconds / 0.8 // 1)
    change = {
        "serving": {"pools": [{**pool, "plan": {"tp": 1}} for pool in pools]},
        "programs": {"tools": {"index": {"seconds": place.seconds, "concurrency": slots}}},
    }
    point = api.simulate_programs(merged(scenario, change)).last
    assert point.usd_per_day == pytest.approx(24 * sum(PRICES[p["group"]] * p["replicas"] for p in pools))
    usd = slots * place.usd_per_hour + sum(PRICES[p["group"]] * p["replicas"] for p in pools)
    return usd if not point.saturated and (point.deadline_met or 0.0) >= 0.9 else float("inf")


@pytest.mark.parametrize("deadline_s", [pytest.param(2.5, marks=pytest.mark.slow), 3.0])
def test_the_least_is_that_of_all_placements(deadline_s: float) -> None:
    asked = merged(AGENT, {"programs": {"deadline_s": deadline_s}})
    every = [[{"role": "mixed", "group": g, "replicas": n}] for g, n in product((0, 1), (1, 2, 3))]
    for g, h, n, m in product((0, 1), (0, 1), (1, 2, 3), (1, 2, 3)):
        if g != h or n + m <= 3:
            every.append(
                [{"role": "prefill", "group": g, "replicas": n}, {"role": "decode", "group": h, "replicas": m}]
            )
    least = min(cost_of(asked, pools, place) for pools, place in product(every, (CORE, CARD)))
    found = least_cost(asked, {"index": (CORE, CARD)})
    assert found.usd_per_hour == pytest.approx(least)
    assert found.simulated < len(every) * 2
    assert found.point.deadline_met is not None and found.point.deadline_met >= 0.9


def test_a_tight_deadline_moves_a_tool_to_the_faster_class() -> None:
    loose, tight = (
        least_cost(merged(AGENT, {"programs": {"deadline_s": s}}), {"index": (CORE, CARD)}) for s in (4.0, 2.5)
    )
    assert loose.tools["index"] == CORE and tight.tools["index"] == CARD
    assert loose.usd_per_hour < tight.usd_per_hour


def test_fewer_classes_are_never_cheaper() -> None:
    both = least_cost(AGENT, {"index": (CORE,)}).usd_per_hour
    for group in (0, 1):
        try:
            assert least_cost(AGENT, {"index": (CORE,)}, groups=[group]).usd_per_hour >= both
        except Infeasible:
            assert group == 1


def test_named_forms_alone_are_tried() -> None:
    slow = merged(AGENT, {"programs": {"deadline_s": 5.0}})
    found = least_cost(slow, {"index": (CORE, CARD)}, forms=[(("prefill", 0), ("decode", 1))])
    assert [(p["role"], p["group"]) for p in found.pools] == [("prefill", 0), ("decode", 1)]


def test_what_is_wrong_is_said_at_once() -> None:
    asked = merged(AGENT, {"programs": {"deadline_s": None, "rate_per_s": None, "offline": True}})
    with pytest.raises(BadInput) as raised:
        least_cost(asked, {"crane": (CORE,)})
    told = str(raised.value)
    for part in ("programs.rate_per_s", "programs.deadline_s", "programs.tools.index", "programs.tools.crane"):
        assert part in told
    with pytest.raises(BadInput, match="must be one graph with its nodes"):
        least_cost(merged(AGENT, {"programs": {"strategy": "best_of_n"}}), {})


def test_a_deadline_that_nothing_keeps_is_infeasible() -> None:
    with pytest.raises(Infeasible, match="no placement on 3 of group 0, 3 of group 1 instances"):
        least_cost(merged(AGENT, {"programs": {"deadline_s": 0.1}}), {"index": (CORE, CARD)})
