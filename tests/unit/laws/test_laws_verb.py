"""`windtunnel laws`: what it prints, refuses, and shows in its help."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from windtunnel.cli.laws import ASK
from windtunnel.cli.main import run

GUIDE = Path(__file__).parents[3] / "docs/guide/scaling-laws.md"


@pytest.mark.parametrize("words", ASK)
def test_the_lines_of_the_help_run(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 0
    assert capsys.readouterr().out
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_the_lines_of_the_guide_run(capsys: pytest.CaptureFixture[str]) -> None:
    lines = re.findall(r"^windtunnel (laws[^#\n]*)", GUIDE.read_text("utf-8"), flags=re.M)
    assert len(lines) >= 7
    for line in lines:
        assert run(line.split()) == 0, line
    capsys.readouterr()


def test_an_answer_is_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["laws", "chinchilla-refit", "flop=1e22", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"law", "question", "given", "values", "grade", "outside", "source", "notes"}
    assert answer["question"] == "optimum" and answer["given"] == {"flop": 1e22}
    one = answer["values"]["parameters"]
    assert one["low"] < one["value"] < one["high"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["laws", "chinchila"], "did you mean 'chinchilla'?"),
        (["laws", "chinchilla", "parameters"], "must be QUANTITY=VALUE"),
        (["laws", "chinchilla", "flop=1e22", "flop=1e23"], "flop: is given twice"),
        (["laws", "chinchilla", "parameters=70B", "tokens=300B"], "is outside 7e+07 to 1.6e+10 parameters"),
        (["laws", "kaplan", "tokens=1e9"], "parameters: is missing"),
    ],
)
def test_what_is_wrong_is_a_line_and_exit_code_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert told in capsys.readouterr().err
