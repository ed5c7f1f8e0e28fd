"""Time chain: each class of a step's time as data-sheet rate, coefficients and a remaining factor that multiply out.

A launch's seconds are split by pricing the whole step again with one cost at its ideal (no kernel starts, no casts, no
memory limit); the ratio of the achieved rate to data-sheet rate times coefficients is a factor of its own (tiles,
waves, ramps, message starts). So the terms follow the cost formulas whatever they are, and sum to them exactly.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from windtunnel.cost.provenance import Provenance, weakest


@dataclass(frozen=True, slots=True)
class Sheet:
    """A data-sheet rate and its source."""

    name: str
    value: float
    unit: str
    source: str
    grade: str = "measured"


@dataclass(slots=True, kw_only=True)
class Term:
    """One term of the chain: `work / (sheet · coefficients · rest)` seconds.

    Without a data sheet it is `work · coefficients · rest` seconds.

    The product is exact by construction of `rest`, which stays near one where sheet and coefficients explain the time.
    """

    time_class: str
    name: str
    sheet: Sheet | None
    coefficients: tuple[Provenance, ...]
    rest_name: str
    work: float = 0.0
    unit: str = ""
    busy_s: float = 0.0
    exposed_s: float = 0.0
    count: float = 0.0
    """Launches or messages in the step."""
    note: str = ""
    kernel: str = ""
    """Name that a profiler shows: gemm, attention, memory bound, all-gather …; absent: the class of time."""

    @property
    def nominal(self) -> float:
        """Sheet rate times coefficients: units of work per second (seconds per unit without a sheet)."""
        value = self.sheet.value if self.sheet else 1.0
        for c in self.coefficients:
            value *= c.value
        return value

    @property
    def rest(self) -> float:
        """Achieved rate over the nominal one; without a sheet, seconds over the nominal ones."""
        if not self.busy_s or not self.work or not self.nominal:
            return 1.0
        return self.work / self.nominal / self.busy_s if self.sheet else self.busy_s / (self.work * self.nominal)

    @property
    def rate(self) -> float:
        """Achieved units of work per second."""
        return self.nominal * self.rest if self.sheet else 1.0 / (self.nominal * self.rest)

    @property
    def grade(self) -> str:
        """The weakest confidence among its data-sheet rate and coefficients."""
        return weakest([c.grade for c in self.coefficients] + ([self.sheet.grade] if self.sheet else []))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        sheet = self.sheet
        return {
            "class": self.time_class,
            "term": self.name,
            "grade": self.grade,
            "data_sheet": sheet
            and {
                "name": sheet.name,
                "value": sheet.value,
                "unit": sheet.unit,
                "source": sheet.source,
                "grade": sheet.grade,
            },
            "coefficients": [
                {
                    "name": c.name,
                    "value": c.value,
                    "relative_error": c.relative_error,
                    "grade": c.grade,
                    "source": c.source,
                    "prior": c.prior,
                    "level": c.level,
                }
                for c in self.coefficients
            ],
            "rest": {"name": self.rest_name, "value": self.rest},
            "achieved_rate": self.rate,
            "work": self.work,
            "unit": self.unit,
            "count": self.count,
            "busy_s": self.busy_s,
            "exposed_s": self.exposed_s,
            "note": self.note,
        }


@dataclass(slots=True, kw_only=True)
class OperatorLine:
    """One operator of the step: all its launches of one phase on the stage that finishes last."""

    time_class: str
    name: str
    phase: str
    """F, D (data gradient), W (weight gradient), R (recomputed)."""
    kind: str
    number_format: str
    shape: tuple[float, ...]
    limit: str
    """Resource that limits it: compute, memory, start (of the kernel or message) or link."""
    count: float = 0.0
    each_s: float = 0.0
    busy_s: float = 0.0
    exposed_s: float = 0.0
    flop: float = 0.0
    moved_bytes: float = 0.0
    """Bytes that one launch moves: in device memory, or over the link for collectives."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "class": self.time_class,
            "operator": self.name,
            "phase": self.phase,
            "kind": self.kind,
            "number_format": self.number_format,
            "shape": list(self.shape),
            "limit": self.limit,
            "count": self.count,
            "each_s": self.each_s,
            "busy_s": self.busy_s,
            "exposed_s": self.exposed_s,
            "flop": self.flop,
            "bytes": self.moved_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """All terms of the device that finishes last."""

    step_time_s: float
    terms: tuple[Term, ...]
    operators: tuple[OperatorLine, ...]
    exposed: dict[str, float]
    """Class of time → seconds, a partition of the step like `TrainingResult.breakdown`."""
    clock: float = 1.0
    stage: int = 0
    """Pipeline stage that finishes last; the chain shows its time."""
    device: str = ""
    by_class: dict[str, list[Term]] = field(default_factory=dict)

    def busy_s(self, time_class: str) -> float:
        """Seconds that a class keeps its stream busy, hidden or not."""
        return sum(t.busy_s for t in self.by_class.get(time_class, ()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "step_time_s": self.step_time_s,
            "stage": self.stage,
            "clock": self.clock,
            "classes": [
                {
                    "class": name,
                    "busy_s": self.busy_s(name),
                    "exposed_s": seconds,
                    "share": seconds / self.step_time_s,
                    "terms": [t.to_dict() for t in self.by_class.get(name, ())],
                }
                for name, seconds in self.exposed.items()
            ],
            "operators": [o.to_dict() for o in self.operators],
        }


class Collector:
    """Collects terms and operators; equal ones are added up."""

    def __init__(self) -> None:
        self.terms: dict[tuple[str, str], Term] = {}
        self.operators: dict[tuple[Any, ...], OperatorLine] = {}

    def add(self, term: Term) -> None:
        """Add to the term of the same class and name."""
        known = self.terms.setdefault(
            (term.time_class, term.name), replace(term, work=0.0, busy_s=0.0, exposed_s=0.0, count=0.0)
        )
        known.work += term.work
        known.busy_s += term.busy_s
        known.exposed_s += term.exposed_s
        known.count += term.count

    def add_operator(self, line: OperatorLine) -> None:
        """Add to the operator of the same name, phase, shape and limit."""
        key = (
            line.time_class,
            line.name,
            line.phase,
            line.kind,
            line.number_format,
            line.shape,
            line.limit,
            round(line.each_s, 12),
        )
        known = self.operators.setdefault(key, replace(line, count=0.0, busy_s=0.0, exposed_s=0.0))
        known.count += line.count
        known.busy_s += line.busy_s
        known.exposed_s += line.exposed_s

    def chain(self, step_time_s: float, exposed: dict[str, float], clock: float, stage: int, device: str) -> Chain:
        """The chain of all terms, largest first; classes that are hidden entirely come last with zero seconds."""
        by_class: defaultdict[str, list[Term]] = defaultdict(list)
        for term in sorted(self.terms.values(), key=lambda t: -t.busy_s):
            if term.busy_s > 0 or term.exposed_s > 0:
                by_class[term.time_class].append(term)
        shown = dict(exposed) | {name: 0.0 for name in by_class if name not in exposed}
        lines = sorted(self.operators.values(), key=lambda o: -o.busy_s)
        terms = tuple(t for name in shown for t in by_class.get(name, ()))
        return Chain(
            step_time_s=step_time_s,
            terms=terms,
            operators=tuple(lines),
            exposed=shown,
            clock=clock,
            stage=stage,
            device=device,
            by_class=dict(by_class),
        )
