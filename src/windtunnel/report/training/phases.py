"""Phases of a run in words: one row each, for the terminal and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.quantities import count, gib, percent, seconds

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult

COLUMNS = ("phase", "steps", "time", "step", "tokens/s", "reserved", "what differs")
NOTE = "shares of its steps and of its time; figures above are means over the run, memory that of the fullest phase"


def phase_rows(result: TrainingResult) -> list[tuple[str, ...]]:
    """Cells of `COLUMNS` for each phase of `TrainingResult.run`; none where all steps are alike."""
    return [
        (
            p["name"],
            percent(p["share"]),
            percent(p["share_of_time"]),
            seconds(p["step_time_s"]),
            count(p["tokens_per_s"]),
            gib(p["peak_memory_reserved_bytes"]),
            _difference(p),
        )
        for p in result.run
    ]


def _difference(phase: dict[str, Any]) -> str:
    changed = [f"{field.removeprefix('training.')} {value}" for field, value in phase["set"].items()]
    return ", ".join([*changed, *(f"without {name}" for name in phase["without"])])
