"""Records of an answer: its rows of text, and what they stand on."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windtunnel.errors import Infeasible
from windtunnel.questions.to_scenario import Asked

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.views.view import Tone

WIDTH, MOST_LINES = 80, 14
_NAME = 12
"""Columns of the names of rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """A named line of an answer."""

    name: str
    text: str
    tone: Tone = ""
    most: int = 1
    """Lines that it may take; what is longer ends in an ellipsis."""


def lines(rows: Sequence[Row], width: int = WIDTH) -> list[str]:
    """The rows as lines of text, none wider than `width`."""
    return [line for row in rows for line in row_lines(row, width)]


def row_lines(row: Row, width: int = WIDTH) -> list[str]:
    """One row as lines of text."""
    room = max(width - _NAME, 20)
    parts = textwrap.wrap(row.text, room, break_on_hyphens=False) or [""]
    if len(parts) > row.most:
        kept = textwrap.shorten(" ".join(parts[row.most - 1 :]), room, placeholder=" …", break_on_hyphens=False)
        parts = [*parts[: row.most - 1], kept]
    name = row.name if len(row.name) < _NAME else f"{row.name[: _NAME - 2]}…"
    return [f"{name if at == 0 else '':{_NAME}}{part}" for at, part in enumerate(parts)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a question's scenario gave."""

    asked: Asked
    scenario: dict[str, Any]
    """With the plan that was found; what `-o` writes."""
    result: Any
    """What the command returns for that scenario; None where nothing is feasible."""
    shown: Any = None
    """Prediction of a step, a run or a deployment that the answer is about; None where it is the result itself."""
    step: TrainingResult | None = None
    """Of a whole run, its step."""
    infeasible: Infeasible | None = None
    upper: bool = True
    """Of a deployment: whether it keeps the objective at the upper end of the interval too."""
    taken: dict[str, Any] | None = None
    """The deployment that a search chose, as a scenario of its own, which `-o` writes; None where `scenario` has it."""
    central_devices: int | None = None
    """Devices that keep the objective at the central prediction; None where that was not looked for."""
    given_up: tuple[tuple[str, Any, str], ...] = ()
    """The objective that was assumed and cannot be kept: field, value, why."""
    each: tuple[tuple[str, Any], ...] = ()
    """Of a comparison: name of each side, and the prediction of its best plan; None where there is none."""
    best: str = ""
    """Of a comparison, the side that the answer is about; empty where it is the device of the scenario."""
    served: str = ""
    """Where it was not said whether to train or to serve: what serving would say."""
    no_plan: str = ""
    """Why the planner had no plan to recommend, with the nearest miss; empty where it had one."""
    longest: int = 0
    """Of a search for the longest context that fits, its tokens; 0 where none was asked for."""
    too_few: int = 0
    """The largest number of devices that was tried and did not do; 0 where none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of at most fourteen lines, and all that it stands on."""

    words: str
    command: str
    scenario: dict[str, Any]
    verdict: str
    rows: tuple[Row, ...]
    assumed: tuple[tuple[str, Any, str], ...]
    result: Any
    taken: dict[str, Any] | None = None
    """What `-o` writes, where a search chose more than `scenario` says."""

    @property
    def exit_code(self) -> int:
        """3 where nothing is feasible."""
        return Infeasible.exit_code if self.result is None else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "words": self.words,
            "command": self.command,
            "scenario": self.scenario,
            "verdict": self.verdict,
            "answer": [{"name": row.name, "text": row.text, "tone": row.tone} for row in self.rows],
            "assumed": [{"field": name, "value": value, "why": why} for name, value, why in self.assumed],
            "result": None if self.result is None else self.result.to_dict(),
        }

    def scenario_text(self) -> str:
        """The scenario as YAML, with the question above it."""
        import yaml

        from windtunnel.training.results.serialise import plain

        text = yaml.safe_dump(
            plain(self.taken or self.scenario), sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
        )
        asked = " ".join(self.words.split())
        return f"# windtunnel {asked!r}\n{text}"

    def __repr__(self) -> str:
        return "\n".join(lines(self.rows))
