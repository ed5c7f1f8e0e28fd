"""What a technique costs, as its description says it."""

from __future__ import annotations

from windtunnel.techniques.base import Technique
from windtunnel.techniques.described import mechanism

_BEGINS = "What it costs:"


def costs_of(technique: Technique) -> str:
    """The paragraph of its description that says what it costs; empty where none does."""
    found = (text for text in mechanism(technique).split("\n\n") if text.startswith(_BEGINS))
    return next(found, "").removeprefix(_BEGINS).strip()
