"""Questions as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.batch import MAX_LINE_BYTES, answers

SCENARIO = Path(__file__).parents[2] / "examples" / "llama3-8b-8xh100-fsdp.yaml"


def asked(**fields: Any) -> str:
    """A question."""
    return json.dumps({"verb": "train", "scenario": str(SCENARIO), **fields})


def test_an_answer_is_what_the_verb_prints() -> None:
    (answer,) = answers([asked(id="x", set={"plan.mbs": 1})])
    own = api.simulate_training(SCENARIO, overrides=("plan.mbs=1",), sensitivities=False).to_dict()
    assert answer["id"] == "x" and answer["ok"]
    assert answer["result"]["step_time_s"] == own["step_time_s"]


def test_a_wrong_line_stops_nothing() -> None:
    found = list(answers(["nonsense", "", asked(verb="trian", extra=1), asked(set=["plan.tp=3"]), "[1]", asked(id=9)]))
    assert [one["ok"] for one in found] == [False, False, False, False, True]
    assert [one["id"] for one in found] == [1, 3, 4, 5, 9]
    assert {p["field"] for p in found[1]["problems"]} == {"extra", "verb"}
    assert found[2]["exit_code"] == 2 and found[2]["problems"][0]["field"] == "plan"


def test_paths_are_relative_to_the_file_of_questions() -> None:
    (answer,) = answers([json.dumps({"verb": "fit", "scenario": SCENARIO.name})], SCENARIO.parent)
    assert answer["ok"]


@pytest.mark.parametrize("line", [" " * MAX_LINE_BYTES + "{}", "[" * 100_000, '{"scenario": 3}'])
def test_what_cannot_be_read_is_one_problem(line: str) -> None:
    (answer,) = answers([line])
    assert not answer["ok"] and answer["exit_code"] == 2
