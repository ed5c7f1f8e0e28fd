"""Wrong inputs that `make fuzz` found, made small: each ends in an answer or in a line about what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fuzz_entries
import pytest

from windtunnel.commands import COMMANDS
from windtunnel.errors import BadInput

FUZZ = Path(__file__).parents[1] / "fuzz"
FOUND = [json.loads(line) for line in (FUZZ / "found.jsonl").read_text("utf-8").splitlines()]
_NEEDS = {"mcp": ("mcp",), "studio": ("starlette",), "sweep": ("pandas", "duckdb", "pyarrow")}


@pytest.mark.parametrize("case", FOUND, ids=[one["kind"] for one in FOUND])
def test_a_wrong_input_ends_in_an_answer_or_a_refusal(case: dict[str, Any]) -> None:
    for package in _NEEDS.get(case["entry"], ()):
        pytest.importorskip(package)
    assert fuzz_entries.judged(case) == ""
    if "refused" in case:
        with pytest.raises(BadInput, match=f"^{case['refused']}"):
            COMMANDS.get(case["command"]).run(case["scenario"])


def test_an_internal_error_and_a_number_that_cannot_be_are_told() -> None:
    assert fuzz_entries.nonsense({"a": {"step_time_s": -1.0}}, {}) == "a.step_time_s is -1.0"
    assert fuzz_entries.nonsense({"x": [float("nan")]}, {}) == "x.0 is nan"
    assert "KeyError" in fuzz_entries.judged({"entry": "python", "scenario": {}})
