"""What tools return: typed, and small unless more is asked for."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field

MOST_BYTES = 2000
"""Bytes of an answer without `detail: full`."""


class ProblemRecord(BaseModel):
    """One thing to put right."""

    path: str | None = None
    value: Any = None
    allowed: str = ""
    nearest: str | None = None


class Answer(BaseModel):
    """A prediction, or why there is none."""

    ok: bool
    figures: dict[str, Any] = Field(default_factory=dict)
    interval: dict[str, Any] | None = None
    """Band of the main figure, with its level."""
    grade: str | None = None
    """How good the main figure is: measured, fitted, analytic or assumed."""
    assumed: list[str] = Field(default_factory=list)
    """What the scenario left open, as field = value."""
    warnings: list[str] = Field(default_factory=list)
    problems: list[ProblemRecord] = Field(default_factory=list)
    left_out: int = 0
    """Entries that were left out to stay small; `detail: full` has them."""
    full: dict[str, Any] | None = None


class Listing(BaseModel):
    """Entries of the catalogue or of a sweep."""

    ok: bool = True
    entries: list[dict[str, Any]] = Field(default_factory=list)
    total: int = 0
    problems: list[ProblemRecord] = Field(default_factory=list)


class Text(BaseModel):
    """A text: a scenario, launch files, a schema."""

    ok: bool = True
    text: str = ""
    files: dict[str, str] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    problems: list[ProblemRecord] = Field(default_factory=list)


class Job(BaseModel):
    """Work in the background."""

    ok: bool = True
    id: str = ""
    state: str = ""
    """running, done, failed or cancelled."""
    told: str = ""
    """How far it is, in words."""
    answer: Answer | None = None
    problems: list[ProblemRecord] = Field(default_factory=list)


def small(answer: Answer) -> Answer:
    """The answer without what makes it larger than `MOST_BYTES`: long texts are cut, last entries dropped."""
    answer = answer.model_copy(
        update={
            "assumed": [_cut(text, 90) for text in answer.assumed],
            "warnings": [_cut(text, 160) for text in answer.warnings],
            "problems": [p.model_copy(update={"allowed": _cut(p.allowed, 240)}) for p in answer.problems],
        }
    )
    lists = ["assumed", "warnings", "problems"]
    while _size(answer) > MOST_BYTES:
        longest = max(lists, key=lambda name: len(getattr(answer, name)))
        kept = getattr(answer, longest)
        if kept:
            answer = answer.model_copy(update={longest: kept[:-1], "left_out": answer.left_out + 1})
        elif len(answer.figures) > 1:
            figures = dict(list(answer.figures.items())[:-1])
            answer = answer.model_copy(update={"figures": figures, "left_out": answer.left_out + 1})
        else:
            break
    return answer


def _size(answer: Answer) -> int:
    return len(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False).encode())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
