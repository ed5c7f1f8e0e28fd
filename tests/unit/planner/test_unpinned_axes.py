"""A free search holds the plan that it is free of."""

from __future__ import annotations

from typing import Any

import pytest
from search_candidates import holds

from windtunnel import api, catalog
from windtunnel.planner.space.unpinned_axes import uneven_split, unpin_axes
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec

WRITTEN: list[dict[str, Any]] = [
    {"recompute": {"policy": "modules", "modules": ["mlp", "norm"]}, "tp": 2},
    {"recompute": {"policy": "full", "num_layers": 3}},
    {"zero": 3, "shard_group": 4, "tp": 2},
    {"pp": 4, "stage_layers": [9, 8, 8, 7]},
    {"pp": 4, "vpp": 3},
    {"tp": 2, "sp": False},
    {"pp": 4, "schedule": "gpipe"},
]


def scenario(plan: dict[str, Any]) -> Scenario:
    data = {
        "model": "llama3.1-8b",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 2},
        "plan": plan,
        "training": {"seq_len": 8192, "global_batch": 64},
    }
    found = Scenario.model_validate(data)
    return found.model_copy(update={"model": catalog.model("llama3.1-8b")})


@pytest.mark.parametrize("plan", WRITTEN, ids=str)
def test_the_written_plan_is_in_the_space(plan: dict[str, Any]) -> None:
    written = scenario(plan)
    model = catalog.model("llama3.1-8b")
    free = unpin_axes(written, model)
    assert holds(free, written)
    kept = {name: plan[name] for name in ("zero",) if name in plan}
    assert holds(free, scenario({"tp": 8, **kept}))
    assert free.plan.model_fields_set <= {"zero"}


def test_what_the_space_lists_is_kept() -> None:
    search = SearchSpec.model_validate({"space": {"recompute": ["full"], "tp": [4]}})
    written = scenario(WRITTEN[0]).model_copy(update={"search": search})
    space = unpin_axes(written, catalog.model("llama3.1-8b")).search
    assert space is not None and space.space.recompute == ("full",) and space.space.tp == (4,)


def test_interleaved_stages_that_do_not_divide_are_written_out() -> None:
    model = catalog.model("llama3.1-8b")
    assert uneven_split(PlanSpec(pp=4, vpp=2), model) is None
    assert sum(uneven_split(PlanSpec(pp=4, vpp=3), model) or ()) == 32


def test_the_best_is_no_slower_than_what_was_written() -> None:
    plan = {"tp": 2, "recompute": {"policy": "modules", "modules": ["mlp"]}, "zero": 1}
    result = api.plan(scenario(plan), free=True)
    assert result.gain is not None and result.gain >= 0.0
