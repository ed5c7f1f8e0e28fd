"""Steps and incidents of a run so far, from a CSV, and what they say of its step time and its failures.

Columns: `time` (seconds, or ISO dates), `step`, and `event`, empty in rows that only say how far the run is, else the
cause of a failure. Other columns are ignored. Rows are in the order of time; steps go back where work was lost.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading

PRIOR_FAILURES = 2.0
"""Failures that the profile's rate counts for next to those of the log: rates of sites differ by a factor of about two
either way (3 to 24 failures per 1,000 node-days), a gamma prior of this shape."""
_LEAST_STEPS = 2
_NO_FAILURE = frozenset({"", "step", "save", "checkpoint", "restart", "start", "end"})


@dataclass(frozen=True, slots=True)
class ProgressLog:
    """What a log says."""

    elapsed_s: float
    """Wall time from the first row to the last."""
    first_step: float
    last_step: float
    step_time_s: float
    """Median of rows that follow each other without an event between."""
    failures: int
    causes: dict[str, int]

    def failure_scale(self, expected: float) -> float:
        """Factor on the profile's rates: failures of the log and the prior over what the profile expects of both.

        Args:
            expected: Failures that the profile expects in the time of the log.
        """
        return (self.failures + PRIOR_FAILURES) / (expected + PRIOR_FAILURES)


def read_progress_log(path: Path) -> ProgressLog:
    """The log in a CSV.

    Raises:
        BadInput: the file cannot be read, or with every line that is wrong.
    """
    with reading.open_text(path, "--progress", newline="", errors="replace") as file:
        reader = csv.DictReader(file)
        missing = [name for name in ("time", "step") if name not in (reader.fieldnames or ())]
        if missing:
            raise BadInput(Problem("--progress", f"needs the columns time and step; {path.name} has no {missing[0]}"))
        rows = list(reader)
    times, steps, events, problems = [], [], [], []
    for number, row in enumerate(rows, start=2):
        try:
            time_s, step = _time_s(row["time"]), float(row["step"])
            if not (math.isfinite(time_s) and math.isfinite(step) and step >= 0):
                raise ValueError
        except (TypeError, ValueError):
            problems.append(Problem("--progress", f"line {number} of {path.name} has no time and step", _shown(row)))
            continue
        times.append(time_s)
        steps.append(step)
        if len(times) > 1 and times[-1] < times[-2]:
            rule = f"line {number} of {path.name} is before the line above"
            problems.append(Problem("--progress", rule, row["time"]))
        events.append((row.get("event") or "").strip())
    if problems:
        raise BadInput(problems[:20])
    return _summary(np.array(times), np.array(steps), events, path)


def _summary(times: Floats, steps: Floats, events: list[str], path: Path) -> ProgressLog:
    quiet = np.array([events[i + 1].lower() in _NO_FAILURE for i in range(len(events) - 1)], bool)
    moved = np.diff(steps)
    use = quiet & (moved > 0) & (np.diff(times) > 0) if len(moved) else np.zeros(0, bool)
    if not use.any() or steps.max() - steps.min() < _LEAST_STEPS:
        rule = f"{path.name} needs two rows at least between which steps were done without an event"
        raise BadInput(Problem("--progress", rule))
    failed = [e for e in events if e.lower() not in _NO_FAILURE]
    return ProgressLog(
        elapsed_s=float(times[-1] - times[0]),
        first_step=float(steps[0]),
        last_step=float(steps[-1]),
        step_time_s=float(np.median(np.diff(times)[use] / moved[use])),
        failures=len(failed),
        causes={name: failed.count(name) for name in sorted(set(failed))},
    )


def _time_s(text: str) -> float:
    """Seconds of a number or an ISO date."""
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text.strip()).timestamp()


def _shown(row: dict[str, str]) -> str:
    return ",".join(str(value) for value in row.values())
