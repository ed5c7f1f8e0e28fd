"""Traces of spot fleets: one file a format, found by its columns."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.runs.spot.availability import Availability, changes_of
from windtunnel.runs.spot.formats import bamboo, gcloud, parcae
from windtunnel.runs.spot.formats.line import Damaged, Line

FORMATS = {"bamboo": bamboo, "gcloud": gcloud, "parcae": parcae}
_FIELD = "run.spot.trace"
_MOST_PROBLEMS = 20


def read_trace(path: Path, name: str | None = None) -> Availability:
    """Nodes over time of a trace.

    Args:
        path: CSV file.
        name: Its format; None: by its columns.

    Raises:
        BadInput: the file cannot be read or has other columns, or with every line that is damaged.
    """
    with reading.open_text(path, _FIELD, newline="", errors="replace") as file:
        reader = csv.DictReader(file)
        columns = tuple(reader.fieldnames or ())
        rows = [Line(number, row) for number, row in enumerate(reader, start=2)]
    known = [n for n, module in FORMATS.items() if set(module.COLUMNS) <= set(columns)]
    if name is not None:
        known = [n for n in known if n == name]
    if not known:
        wanted = "; ".join(f"{n}: {', '.join(FORMATS[n].COLUMNS)}" for n in ([name] if name else FORMATS))
        raise BadInput(Problem(_FIELD, f"{path.name} needs the columns of a format ({wanted})"))
    return _levels(FORMATS[known[0]].Reader(), rows, path)


def _levels(reader: bamboo.Reader | gcloud.Reader | parcae.Reader, rows: list[Line], path: Path) -> Availability:
    """The series of a reader's lines.

    Raises:
        BadInput: with every line that is damaged.
    """
    at: list[float] = []
    level: list[int] = []
    problems = []
    for line in rows:
        try:
            time, there = reader.read(line)
            if at and time < at[-1]:
                raise Damaged("is before the line above", line.shown)
        except Damaged as damaged:
            problems.append(Problem(_FIELD, f"line {line.number} of {path.name} {damaged.rule}", damaged.value))
            continue
        at.append(time)
        level.append(there)
    if not problems and len(at) < 2:
        problems.append(Problem(_FIELD, f"{path.name} needs two lines at least"))
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        told = problems[:_MOST_PROBLEMS]
        raise BadInput(told + ([Problem(_FIELD, f"{path.name} has {more} damaged lines more")] if more > 0 else []))
    start = at[0]
    return changes_of(np.array(at) - start, np.array(level, np.int64), max(at[-1] - start + reader.last_s, 1.0))
