"""Small scenarios that move every knob they can, by each command: their results equal stored ones at eleven digits.

`tests/golden/commands/COMMAND.json` holds scenarios (`bases`), fields that are set on one of them (`cases`) and, below
each, the digest of its result: of a base all fields, of a case those that differ from its base. A digest that changes
on purpose is written anew by `make goldens`; say why in the changelog.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_digests import differences, digest

from windtunnel.batch import answers

pytestmark = pytest.mark.golden

FOLDER = Path(__file__).with_name("commands")
FILES = FOLDER / "files"
REGENERATE = bool(os.environ.get("WINDTUNNEL_REGENERATE"))
EVERY_KNOB = "every knob"
"""The base whose cases list an algorithm of learning with one knob after the other moved."""
COMMANDS = sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def stored(command: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{command}.json").read_text("utf-8"))
    return found


def slow(case: dict[str, Any]) -> tuple[pytest.MarkDecorator, ...]:
    """The mark of a case that the long suite runs alone."""
    return (pytest.mark.slow,) if case.get("slow") else ()


def identifiers() -> Iterator[Any]:
    for command in COMMANDS:
        for id, case in (stored(command)["bases"] | stored(command)["cases"]).items():
            yield pytest.param(command, id, id=f"{command}: {id}", marks=slow(case))


def with_settings(scenario: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """A scenario with fields set, each by its path of names and places."""
    scenario = copy.deepcopy(scenario)
    for path, value in settings.items():
        at: Any = scenario
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            if isinstance(at, dict) and not isinstance(at.get(part), dict | list):
                at[part] = {}
            at = at[part]
        at[last] = value
    return scenario


def scenario_of(command: str, id: str) -> dict[str, Any]:
    found = stored(command)
    if id in found["bases"]:
        return found["bases"][id]["scenario"]  # type: ignore[no-any-return]
    case = found["cases"][id]
    return with_settings(found["bases"][case["base"]]["scenario"], case["set"])


def predicted(command: str, id: str) -> dict[str, float]:
    question = {"id": id, "verb": command, "scenario": scenario_of(command, id)}
    (answer,) = answers([json.dumps(question)], FILES)
    assert answer["ok"], [problem["message"] for problem in answer["problems"]]
    if command == "learn" and stored(command)["cases"].get(id, {}).get("base") == EVERY_KNOB:
        assert alike(answer["result"]) == []
    return digest(answer["result"])


def alike(result: dict[str, Any]) -> list[str]:
    """Learning algorithms of a result whose figures are all equal to those of one before: their knobs did nothing."""
    known: list[Any] = []
    found = []
    for label, each in result["algorithms"].items():
        figures = {name: value for name, value in each.items() if name not in ("label", "knobs", "reasons")}
        points = [curve["points"] for curve in result["curves"] if curve["algorithm"] == label]
        moved = json.dumps([figures, points])
        if moved in known:
            found.append(label)
        known.append(moved)
    return found


def expected(command: str, id: str) -> dict[str, float]:
    found = stored(command)
    if id in found["bases"]:
        return found["bases"][id]["digest"]  # type: ignore[no-any-return]
    case = found["cases"][id]
    kept = {**found["bases"][case["base"]]["digest"], **case["digest"]}
    return {path: value for path, value in kept.items() if value is not None}


@pytest.mark.parametrize(("command", "id"), list(identifiers()))
def test_predictions_of_small_scenarios(command: str, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    if REGENERATE:
        write(command, id, predicted(command, id))
    assert differences(predicted(command, id), expected(command, id)) == {}


def write(command: str, id: str, found: dict[str, float]) -> None:
    """Store a digest."""
    write_cases(FOLDER / f"{command}.json", with_digest(stored(command), id, found))


def with_digest(all_: dict[str, Any], id: str, found: dict[str, float]) -> dict[str, Any]:
    """Stored cases with one's digest set: of a base all fields, of a case those that differ from its base."""
    if id in all_["bases"]:
        all_["bases"][id]["digest"] = found
        return all_
    base = all_["bases"][all_["cases"][id]["base"]]["digest"]
    fields = sorted(base.keys() | found.keys())
    all_["cases"][id]["digest"] = {path: found.get(path) for path in fields if found.get(path) != base.get(path)}
    return all_


def write_cases(file: Path, all_: dict[str, Any]) -> None:
    """Write stored cases, one a line."""
    lines = ['{"bases": {']
    lines += [",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in all_["bases"].items())]
    lines += ['}, "cases": {']
    lines += [",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in all_["cases"].items())]
    file.write_text("\n".join([*lines, "}}"]) + "\n", "utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_case_moves_a_figure(command: str) -> None:
    for id, case in stored(command)["cases"].items():
        assert case["digest"], id
