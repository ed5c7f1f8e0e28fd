"""A scenario that leaves its plan open is planned in bounded time, and says among what."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.commands import open_plan

_OPEN: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 16, "framework": "nemo", "precision": "bf16"},
}


def test_many_plans_are_searched_among_powers_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, settings, said = api.with_recommended_plan(_OPEN)
    assert said.startswith("plan: left to the planner") and "powers of two" not in said and settings == ()
    assert api.chosen_by_planner(_OPEN, (), whole) == ("plan",)
    monkeypatch.setattr(open_plan, "MOST_PLANS", 10)
    coarse, _, told = api.with_recommended_plan(_OPEN)
    assert told.endswith("among axes of powers of two") and isinstance(coarse, dict)
    assert api.simulate_training(coarse, sensitivities=False).memory_fits


def test_axes_and_spaces_of_the_users_own_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_plan, "MOST_PLANS", 10)
    written = {**_OPEN, "plan": {"tp": 2, "mbs": "auto"}}
    taken, _, said = api.with_recommended_plan(written)
    assert isinstance(taken, dict) and taken["plan"]["tp"] == 2
    assert api.chosen_by_planner(written, (), taken) == ("plan.mbs",) and "planner" in said
    spaced = {**_OPEN, "search": {"space": {"tp": [1, 2, 4]}}}
    assert "powers of two" not in api.with_recommended_plan(spaced)[2]
    stated = {**_OPEN, "plan": {"tp": 2}}
    assert api.with_recommended_plan(stated) == (stated, (), "")
    assert api.chosen_by_planner(stated, (), stated) == ()
