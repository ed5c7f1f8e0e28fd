"""A table of jobs, its columns by any of their names, and every damaged line named."""

from __future__ import annotations

import csv
import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.jobs import Jobs
from windtunnel.errors import UNSET, BadInput, Problem
from windtunnel.files import reading
from windtunnel.registry import Registry

MOST_PROBLEMS = 20
"""Damaged lines that are listed one by one."""
MOST_LINES = 5_000_000
LONGEST_S = 1e11
_DURATION = "must be seconds, or `scenario` and `steps` must say how long the job takes"


@dataclass(frozen=True, slots=True)
class JobTrace:
    """A format."""

    what: str
    """Whose it is, in a few words."""
    columns: Mapping[str, tuple[str, ...]]
    """Name of a column here → its names in files. Those in `required` have to be there."""
    required: tuple[str, ...]
    read: Callable[[Table, float], Jobs]
    """From the table and the seconds of a unit of time."""
    delimiter: str = ","


JOB_TRACES: Registry[JobTrace] = Registry("job_traces", package="windtunnel.clusters.traces", noun="trace format")


@dataclass(slots=True)
class Table:
    """Lines of a file by column."""

    file: str
    cells: dict[str, list[str]]
    written: dict[str, str]
    """Name of a column here → its name in the file."""
    lines: Ints
    problems: list[Problem]

    def __len__(self) -> int:
        return len(self.lines)

    def has(self, column: str) -> bool:
        """Whether the file has the column."""
        return column in self.cells

    def texts(self, column: str) -> tuple[str, ...]:
        """The column as it is written; empty where the file has none."""
        return tuple(self.cells.get(column, ()))

    def numbers(
        self,
        column: str,
        *,
        low: float = 0.0,
        high: float = LONGEST_S,
        absent: float | None = None,
        whole: bool = False,
        read: Callable[[str], float] = float,
    ) -> Floats:
        """The column as numbers; what is not one is a problem.

        Args:
            column: its name here.
            low: the least that is allowed.
            high: the most.
            absent: what stands for an empty cell, or for a column that the file lacks; None: a number is required.
            whole: whether it must be a whole number.
            read: how a cell becomes a number.
        """
        if column not in self.cells:
            return np.full(len(self), np.nan if absent is None else absent)
        out = np.empty(len(self))
        for i, text in enumerate(self.cells[column]):
            if not text and absent is not None:
                out[i] = absent
                continue
            try:
                value = read(text)
            except ValueError:
                value = math.nan
            if not low <= value <= high or (whole and value != round(value)):
                kind = "a whole number" if whole else "a number"
                self.wrong(i, column, text, f"must be {kind} between {low:g} and {high:g}")
                value = max(low, 1.0)
            out[i] = value
        return out

    def wrong(self, row: int, column: str, value: object, rule: str) -> None:
        """Note what is wrong with a line."""
        field = self.written.get(column, column)
        self.problems.append(Problem(field, rule, value, file=self.file, line=int(self.lines[row])))

    def keep(self, rows: Iterable[int]) -> Table:
        """Some of the lines."""
        picked = list(rows)
        cells = {name: [column[i] for i in picked] for name, column in self.cells.items()}
        return Table(self.file, cells, self.written, self.lines[picked], self.problems)


def read_trace(path: Path, format_id: str, unit_s: float) -> Jobs:
    """Read a file of jobs.

    Raises:
        BadInput: the file, its format, or lines of it, each with its number.
    """
    found = JOB_TRACES.get(format_id, "jobs.format")
    table = read_table(path, found)
    jobs = found.read(table, unit_s) if len(table) else None
    if jobs is not None:
        _check_order(jobs, table)
    if table.problems:
        table.problems.sort(key=lambda problem: problem.line or 0)
        more = len(table.problems) - MOST_PROBLEMS
        tail = [Problem("", f"and {more:,} more", UNSET, file=table.file)] if more > 0 else []
        raise BadInput([*table.problems[:MOST_PROBLEMS], *tail])
    if jobs is None or not len(jobs):
        raise BadInput(Problem("jobs.trace", "has no jobs", str(path)))
    return jobs


def read_table(path: Path, form: JobTrace) -> Table:
    """Columns that a format knows, of a file with a line of names.

    Raises:
        BadInput: the file cannot be read or lacks a column.
    """
    try:
        with reading.open_text(path, "jobs.trace", newline="") as stream:
            rows = list(csv.reader(stream, delimiter=form.delimiter))
    except OSError as error:
        raise BadInput(Problem("jobs.trace", f"cannot be read: {error.strerror}", str(path))) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(Problem("jobs.trace", f"is not a text table: {error}", str(path))) from None
    if not rows:
        raise BadInput(Problem("jobs.trace", "is empty", str(path)))
    if len(rows) > MOST_LINES:
        raise BadInput(Problem("jobs.trace", f"must have at most {MOST_LINES:,} lines", str(path)))
    names = [name.strip() for name in rows[0]]
    written = {own: name for own, known in form.columns.items() for name in reversed(known) if name in names}
    missing = [own for own in form.required if own not in written]
    if missing:
        lacks = "; ".join(" or ".join(form.columns[own]) for own in missing)
        raise BadInput([Problem("", f"has no column {lacks}", UNSET, file=str(path), line=1)])
    problems: list[Problem] = []
    kept, lines = [], []
    for number, row in enumerate(rows[1:], 2):
        if not row or (len(row) == 1 and not row[0].strip()):
            continue
        if len(row) != len(names):
            rule = f"has {len(row)} cells, and the first line names {len(names)}"
            problems.append(Problem("", rule, UNSET, file=str(path), line=number))
            continue
        kept.append(row)
        lines.append(number)
    at = {own: names.index(name) for own, name in written.items()}
    cells = {own: [row[i].strip() for row in kept] for own, i in at.items()}
    return Table(str(path), cells, written, np.array(lines, np.int64), problems)


def _check_order(jobs: Jobs, table: Table) -> None:
    """Note jobs that come before the one above them, among lines whose moment can be read."""
    field = table.written.get("submit_s", "submit_s")
    unread = {problem.line for problem in table.problems if problem.field == field}
    lines = np.arange(len(jobs)) if jobs.lines is None else jobs.lines
    read = np.flatnonzero([int(line) not in unread for line in lines])
    for i in read[1:][np.diff(jobs.submit_s[read]) < 0][:MOST_PROBLEMS]:
        row = int(np.searchsorted(table.lines, jobs.lines[i])) if jobs.lines is not None else int(i)
        rule = "must not be before the job above it: sort the file by it"
        table.wrong(row, "submit_s", table.cells["submit_s"][row], rule)


def moment(text: str) -> float:
    """Seconds: a number, or a date with its time."""
    try:
        return float(text)
    except ValueError:
        found = dt.datetime.fromisoformat(text.replace("/", "-"))
        return found.replace(tzinfo=found.tzinfo or dt.UTC).timestamp()


def span(text: str) -> float:
    """Seconds: a number, or `[days-]hours:minutes:seconds`."""
    days, dash, rest = text.rpartition("-")
    if dash and not days.isdigit():
        raise ValueError(text)
    parts = [float(part) for part in rest.split(":")]
    if len(parts) == 1 and not dash:
        return parts[0]
    parts += [0.0] * (3 - len(parts)) if dash else []
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + part
    return seconds + (int(days) * 86400 if days else 0)


def plain_jobs(table: Table, unit_s: float) -> Jobs:
    """Jobs of a table with the columns of `csv`, of which all but three may be missing."""
    scenarios = table.texts("scenario")
    steps = table.numbers("steps", low=1e-6, absent=np.nan)
    if not scenarios and not table.has("duration_s"):
        rule = "has no column duration_s, or scenario and steps"
        raise BadInput(Problem("", rule, UNSET, file=table.file, line=1))
    work = table.numbers("duration_s", low=1e-6, absent=np.nan if scenarios else None, read=span) * unit_s
    for i in np.flatnonzero(np.isnan(work)).tolist() if scenarios else ():
        if not scenarios[i] or np.isnan(steps[i]):
            table.wrong(i, "duration_s", table.cells.get("duration_s", [""] * len(table))[i], _DURATION)
    users = table.texts("user")
    if table.has("operations"):
        _check_operations(table, work / unit_s)
    names = table.texts("name") or tuple(str(i) for i in range(len(table)))
    deadline = table.numbers("deadline_s", absent=np.inf, read=moment) if table.has("deadline_s") else None
    estimate = table.numbers("estimate_s", low=1e-6, absent=-1.0, read=span) if table.has("estimate_s") else None
    return Jobs(
        submit_s=table.numbers("submit_s", low=-LONGEST_S, read=moment) * unit_s,
        devices=table.numbers("devices", low=1, whole=True, absent=1.0).astype(np.int64),
        work_s=work,
        names=names,
        kinds=table.texts("kind"),
        users=users,
        deadline_s=None if deadline is None else deadline * unit_s,
        estimate_s=None if estimate is None else np.where(estimate < 0, work, estimate * unit_s),
        watts=table.numbers("watts", absent=np.nan) if table.has("watts") else None,
        cpus=table.numbers("cpus", absent=0.0) if table.has("cpus") else None,
        memory_bytes=table.numbers("memory_bytes", absent=0.0) if table.has("memory_bytes") else None,
        priority=table.numbers("priority", low=-1000, high=1000, whole=True, absent=0.0)
        if table.has("priority")
        else None,
        scenarios=scenarios,
        steps=steps if scenarios else None,
        operations=tuple(tuple(s * unit_s for s in _operations(text)) for text in table.texts("operations")),
        file=table.file,
        lines=table.lines,
    )


def _operations(text: str) -> tuple[float, ...]:
    """Seconds of each operation; empty where they are not positive numbers."""
    try:
        found = tuple(float(one) for one in text.split(";"))
    except ValueError:
        return ()
    return found if all(0 < one <= LONGEST_S for one in found) else ()


def _check_operations(table: Table, work: Floats) -> None:
    for i, text in enumerate(table.cells["operations"]):
        if abs(sum(_operations(text)) - work[i]) > 1e-6 * work[i]:
            rule = f"must be positive seconds with ; between them, which add up to the duration ({work[i]:g})"
            table.wrong(i, "operations", text, rule)
