"""One scenario, one answer: every scalar that two entry points return is equal bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from entry_points import SCENARIOS, here, results, scalars, scenarios

from windtunnel.commands import COMMANDS, asked_by_name
from windtunnel.scenarios.open_plan import axes_left_to_planner
from windtunnel.scenarios.read import read_mapping

QUICK = {"train/open", "train/model-file", "train/phases", "fit/auto-axis", "run/side-file", "serve/offline",
         "cluster/drawn", "cluster/side-file", "learn/open", "reason/stated", "plan/every-axis",
         "explain/side-file"}  # fmt: skip
"""Scenarios of the quick suite; the others take longer."""


def _name(path: Path) -> str:
    return path.relative_to(SCENARIOS).with_suffix("").as_posix()


def _cases() -> list[Any]:
    return [
        pytest.param(path, id=_name(path), marks=[] if _name(path) in QUICK else [pytest.mark.slow])
        for path in scenarios()
    ]


def test_there_are_forty_scenarios_at_least_four_a_command_half_with_an_open_plan() -> None:
    by_command = [path.parent.name for path in scenarios()]
    assert len(by_command) >= 40
    assert all(by_command.count(id) >= 4 for id in asked_by_name())
    open_ = [p for p in scenarios() if _leaves_a_plan_open(p)]
    assert 2 * len(open_) >= len(by_command)


def _leaves_a_plan_open(path: Path) -> bool:
    fields = read_mapping(path)
    programs = fields.get("programs") or {}
    return programs.get("plans") == "planner" or ("training" in fields and bool(axes_left_to_planner(path)))


@pytest.mark.parametrize("path", _cases())
def test_every_entry_point_returns_the_same_scalars(path: Path) -> None:
    known: dict[str, tuple[str, Any]] = {}
    differing, shared = [], 0
    with here():
        for entry, result in results(path):
            if entry == "batch":
                _has_its_main_figure(path.parent.name, result)
            for name, value in scalars(result):
                first, other = known.setdefault(name, (entry, value))
                shared += first != entry
                if value != other or type(value) is not type(other):
                    differing.append(f"{name}: {other!r} from {first}, {value!r} from {entry}")
    assert not differing
    assert shared > 10


def _has_its_main_figure(id: str, result: dict[str, Any]) -> None:
    """What a record names is a field of the result; of serving, an explanation has no step and a plan no second one."""
    command = COMMANDS.get(id)
    assert command.main in command.figures
    if "step_time_s" in result or id != "explain":
        absent = set(command.figures) - set(result)
        assert command.main in result and absent <= ({"recommended"} if id == "plan" else set())
