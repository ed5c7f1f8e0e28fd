"""A site's incident log: a CSV of failures with their times, causes and nodes, under whatever names its columns have.

A log has a row for each incident (`time`, `cause`, `node`, `detected`, `resolved`), or a row for each cause with its
`count`. Instants are seconds, or ISO dates; a unit may follow a column's name (`time_h`, `detect_min`).
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.files.reading import read_text

_MOST_ROWS, _MOST_PROBLEMS = 1_000_000, 20
UNITS_S = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    "ms": 1e-3,
}
"""Ends of column names → seconds."""
COLUMNS: dict[str, list[str]] = {
    "time": (
        "time timestamp date datetime failed_at failed occurred occurred_at began start start_time started "
        "started_at event_time opened opened_at when incident_time time_utc"
    ).split(),
    "cause": (
        "cause root_cause symptom reason failure failure_type error error_type event type event_type "
        "component category incident description"
    ).split(),
    "group": "group class family subsystem".split(),
    "node": "node host hostname node_id node_name host_name server machine instance nodes".split(),
    "count": "count number n occurrences incidents interruptions num".split(),
    "detected": "detected detected_at noticed alerted alert_time detected_time".split(),
    "resolved": (
        "resolved resolved_at repaired repaired_at fixed fixed_at closed closed_at returned end end_time "
        "ended recovered recovered_at"
    ).split(),
    "detect": "detect detection detection_time time_to_detect ttd mttd detection_latency".split(),
    "diagnose": "diagnose diagnosis diagnosis_time time_to_diagnose".split(),
    "repair": (
        "repair repair_time time_to_repair ttr mttr resolution resolution_time time_to_resolve downtime duration"
    ).split(),
}
"""What a column says → names that it goes by, lower case, words joined by underscores, without a unit."""
_SPANS = ("detect", "diagnose", "repair")


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One row of a log."""

    cause: str
    group: str = ""
    at_s: float | None = None
    """On the log's clock; None in a table of counts."""
    node: str = ""
    """Empty where the row names none."""
    detect_s: float | None = None
    diagnose_s: float | None = None
    repair_s: float | None = None
    """From detection until the incident is resolved or the node returns."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class IncidentLog:
    """A log that has been read."""

    name: str
    incidents: tuple[Incident, ...]
    """By time where there are times."""
    columns: dict[str, str]
    """What was read → the column that it came from."""

    @property
    def has_times(self) -> bool:
        """Whether rows say when."""
        return "time" in self.columns

    @property
    def total(self) -> int:
        """Incidents in all."""
        return sum(x.count for x in self.incidents)


def read_incidents(path: str | Path) -> IncidentLog:
    """Read a log.

    Args:
        path: a CSV with commas, semicolons, tabs or bars between its cells.

    Raises:
        BadInput: the file cannot be read, has no column of causes or neither times nor counts, or lines are damaged:
            each of the first twenty in a line of its own.
    """
    file = Path(path)
    text = read_text(file, "--from incidents")
    head = text.partition("\n")[0]
    delimiter = max(",;\t|", key=head.count)
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise BadInput(Problem("", f"is no CSV: {error}", file=str(path), line=reader.line_num)) from None
    if len(rows) < 2 or len(rows) > _MOST_ROWS:
        rule = f"must hold a header and 1 to {_MOST_ROWS:,} rows"
        raise BadInput(Problem("", rule, max(len(rows) - 1, 0), file=str(path)))
    names = [name.strip() for name in rows[0][1]]
    reads = _columns(names, str(path))
    problems: list[Problem] = []
    found = [x for line, cells in rows[1:] if (x := _row(cells, line, names, reads, str(path), problems)) is not None]
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        rest = [Problem("", f"and {more} more damaged lines", file=str(path))] if more > 0 else []
        raise BadInput([*problems[:_MOST_PROBLEMS], *rest])
    found.sort(key=lambda x: x.at_s if x.at_s is not None else 0.0)
    return IncidentLog(file.name, tuple(found), {what: names[at] for what, (at, _) in reads.items()})


def _columns(names: list[str], path: str) -> dict[str, tuple[int, float]]:
    """What the columns say → (place, seconds of their unit).

    Raises:
        BadInput: a column that is needed is missing.
    """
    known: dict[str, tuple[int, float]] = {}
    ranks: dict[str, int] = {}
    for at, name in enumerate(names):
        plain = re.sub(r"[^a-z0-9]+", "_", name.strip().casefold()).strip("_")
        stem, _, unit = plain.rpartition("_")
        choices = [(plain, 1.0)] + ([(stem, UNITS_S[unit])] if unit in UNITS_S and stem else [])
        if plain in ("day", "days", "hour", "hours"):
            choices.append(("time", UNITS_S[plain]))
        for base, factor in choices:
            what = next((w for w, spellings in COLUMNS.items() if base in spellings), None)
            if what is None:
                continue
            rank = COLUMNS[what].index(base)
            if what not in known or rank < ranks[what]:
                known[what], ranks[what] = (at, factor), rank
            break
    problems = []
    if "cause" not in known and "group" in known:
        known["cause"] = known.pop("group")
    if "cause" not in known:
        near = next((n for n in names if nearest_name(n, COLUMNS["cause"])), None)
        problems.append(
            Problem("cause", "is required as a column (or symptom, reason, type …)", nearest=near, file=path)
        )
    if "time" not in known and "count" not in known:
        rule = "is required as a column: when each incident was (or `count`: how many there were of each cause)"
        problems.append(Problem("time", rule, file=path))
    if problems:
        raise BadInput(problems)
    return known


def _row(
    cells: list[str],
    line: int,
    names: list[str],
    reads: dict[str, tuple[int, float]],
    path: str,
    problems: list[Problem],
) -> Incident | None:
    """One row; what is wrong with it is one problem."""
    if len(cells) != len(names):
        rule = f"must have {len(names)} cells as the header has"
        problems.append(Problem("", rule, f"{len(cells)} cells", file=path, line=line))
        return None
    try:
        return _incident({what: cells[at].strip() for what, (at, _) in reads.items()}, names, reads)
    except _Damaged as wrong:
        problems.append(Problem(wrong.field, wrong.rule, wrong.value, file=path, line=line))
        return None


class _Damaged(Exception):
    """A cell that cannot be used."""

    def __init__(self, field: str, rule: str, value: str) -> None:
        super().__init__(field, rule, value)
        self.field, self.rule, self.value = field, rule, value


def _incident(said: dict[str, str], names: list[str], reads: dict[str, tuple[int, float]]) -> Incident:
    def column(what: str) -> str:
        return names[reads[what][0]]

    def instant(what: str) -> float | None:
        if not said.get(what):
            return None
        value = _instant_s(said[what], reads[what][1])
        if value is None:
            raise _Damaged(column(what), "must be a time: a number, or a date such as 2026-03-01T07:00", said[what])
        return value

    def span(what: str) -> float | None:
        if not said.get(what):
            return None
        value = _number(said[what])
        if value is None or value < 0:
            raise _Damaged(column(what), "must be a number of at least 0", said[what])
        return value * reads[what][1]

    if not said["cause"]:
        raise _Damaged(column("cause"), "must not be empty", "")
    count = 1
    if said.get("count"):
        number = _number(said["count"])
        if number is None or number < 0 or number != int(number):
            raise _Damaged(column("count"), "must be a whole number of at least 0", said["count"])
        count = int(number)
    at = instant("time")
    if "time" in reads and at is None:
        raise _Damaged(column("time"), "must not be empty", "")
    spans = {what: span(what) for what in _SPANS}
    began = at
    for what, of in (("detected", "detect"), ("resolved", "repair")):
        moment = instant(what)
        if moment is None or began is None:
            continue
        if moment < began:
            raise _Damaged(column(what), "must not be before the incident (or its detection)", said[what])
        spans[of] = moment - began if spans[of] is None else spans[of]
        began = moment
    return Incident(
        cause=" ".join(said["cause"].split()),
        group=said.get("group", ""),
        at_s=at,
        node=said.get("node", ""),
        detect_s=spans["detect"],
        diagnose_s=spans["diagnose"],
        repair_s=spans["repair"],
        count=count,
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _instant_s(text: str, unit_s: float) -> float | None:
    """Seconds of a number in the column's unit, or of a date (UTC where it names no zone)."""
    number = _number(text)
    if number is not None:
        return number * unit_s
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
