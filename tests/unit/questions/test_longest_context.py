"""The longest context that fits: halved from the model's limit, then refined by a half and a quarter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from windtunnel.questions import ask as asking
from windtunnel.questions.reading import read
from windtunnel.questions.records import Found
from windtunnel.questions.to_scenario import Asked


@pytest.mark.parametrize(
    ("room", "longest"),
    [(200_000, 131_072), (131_072, 131_072), (131_071, 98_304), (82_000, 81_920), (70_000, 65_536), (5_000, 4_096)],
)
def test_the_longest_that_fits_is_within_a_quarter(monkeypatch: pytest.MonkeyPatch, room: int, longest: int) -> None:
    def found(question: Asked, _: Any) -> Found:
        fits = question.scenario["training"]["seq_len"] <= room
        return Found(asked=question, scenario=question.scenario, result=SimpleNamespace(memory_fits=fits))

    monkeypatch.setattr(asking, "_found", found)
    reading = read("longest context to train llama3.1 8b on 8 h100")
    assert asking._longest(reading, asking.SILENT).longest == longest


def test_nothing_is_found_where_the_shortest_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(question: Asked, _: Any) -> Found:
        return Found(asked=question, scenario=question.scenario, result=SimpleNamespace(memory_fits=False))

    monkeypatch.setattr(asking, "_found", found)
    assert asking._longest(read("longest context to train llama3.1 8b on 8 h100"), asking.SILENT).longest == 0
