"""Where changes are tried on a whole training run: days, dollars and energy in the same random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from windtunnel.advice.bench import NO_BAND, Band, step_ratio
from windtunnel.advice.objectives import Objective
from windtunnel.advice.plans import differences
from windtunnel.arrays import Floats
from windtunnel.differences import deltas
from windtunnel.errors import Infeasible
from windtunnel.runs.event_loop.program import CLASSES
from windtunnel.runs.prepare_run import PreparedRun
from windtunnel.runs.run_bill import bill_of, loop_of
from windtunnel.runs.run_warnings import why_none
from windtunnel.runs.search import host_bytes
from windtunnel.runs.simulate import prepared_run
from windtunnel.specs.run import DAY_S
from windtunnel.techniques.base import Work
from windtunnel.training.stage_costs.pricing_cache import PricingCache

FIRST = 32
"""Replications of a changed run to begin with; twice as many follow while its difference may be none."""
LEAST_SHARE = 1e-3
"""Share of the wall time by which a class of time has to differ to be named."""
_TAIL = 1.2816
_LEVEL = 0.8
FIGURES = ("days", "run_cost", "energy_kwh", "carbon_kg")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """A run as advice reads it."""

    x: PreparedRun
    samples: Floats
    """Figures of every replication in the order of `FIGURES`, not a number where there is none; shape (n, 4)."""
    seconds: Floats
    """Wall time by class of every replication, shape (n, classes)."""
    means: Floats
    """Of the figures, shape (4,); of a changed run the base's mean and the mean difference in the same replications."""
    mean_seconds: Floats

    @property
    def days(self) -> float:
        """Wall time."""
        return float(self.means[0])

    @property
    def run_cost(self) -> float | None:
        """Dollars; None without a price."""
        return self._known(1)

    @property
    def energy_kwh(self) -> float | None:
        """Of the building."""
        return self._known(2)

    @property
    def carbon_kg(self) -> float | None:
        """None without a grid."""
        return self._known(3)

    def _known(self, at: int) -> float | None:
        value = float(self.means[at])
        return value if math.isfinite(value) else None

    @property
    def scenario_name(self) -> str:
        """As the scenario is called."""
        return str(self.x.scenario.name or self.x.step.scenario_name)

    @property
    def scenario(self) -> Mapping[str, Any]:
        """As plain data."""
        return self.x.step.scenario

    @property
    def plan(self) -> Mapping[str, Any]:
        """As resolved."""
        return self.x.step.plan

    @property
    def breakdown(self) -> dict[str, float]:
        """Class of time → mean seconds."""
        return dict(zip(CLASSES, self.mean_seconds.tolist(), strict=True))

    @property
    def bound_by(self) -> str:
        """The step's bottleneck, and what takes most next to steps that count."""
        rest = {name: s for name, s in self.breakdown.items() if name != "work" and s > 0}
        beside = f", next to steps by {max(rest, key=lambda n: rest[n]).replace('_', ' ')}" if rest else ""
        return f"{self.x.step.bound_by}{beside}"


@dataclass(frozen=True, slots=True)
class RunBench:
    """A whole run."""

    base: RunFigures
    scenario: dict[str, Any]
    folder: Path
    cache: PricingCache = field(default_factory=PricingCache)
    work: ClassVar[Work] = "run"

    @classmethod
    def of(cls, x: PreparedRun) -> RunBench:
        """The bench of a prepared run.

        Raises:
            Infeasible: no replication ends.
        """
        samples, seconds = _replicated(x, 0, x.run.replications)
        means, mean_seconds = samples.mean(axis=0), seconds.mean(axis=0)
        base = RunFigures(x=x, samples=samples, seconds=seconds, means=means, mean_seconds=mean_seconds)
        return cls(base, dict(x.step.scenario), x.folder)

    def run(self, changed: dict[str, Any]) -> RunFigures:
        """The run of a changed scenario in the base's random numbers, until its difference is resolved or they end."""
        x = prepared_run(changed, folder=self.folder, cache=self.cache, one_of_many=True)
        base, most = self.base, len(self.base.samples)
        samples, seconds = _replicated(x, 0, min(FIRST, most))
        while len(samples) < most and not _resolved(samples, base.samples[: len(samples)]):
            more = _replicated(x, len(samples), min(len(samples), most - len(samples)))
            samples, seconds = np.concatenate([samples, more[0]]), np.concatenate([seconds, more[1]])
        n = len(samples)
        return RunFigures(
            x=x,
            samples=samples,
            seconds=seconds,
            means=base.means + (samples - base.samples[:n]).mean(axis=0),
            mean_seconds=np.maximum(base.mean_seconds + (seconds - base.seconds[:n]).mean(axis=0), 0.0),
        )

    def fits(self, result: RunFigures) -> bool:
        """Whether the step fits in the device."""
        return result.x.step.memory_fits

    def reserved_bytes(self, result: RunFigures) -> float | None:
        """Reserved peak of the fullest stage in a step."""
        return result.x.step.peak_memory_reserved_bytes

    def moved(self, result: RunFigures, objective: Objective) -> tuple[tuple[str, float, float], ...]:
        """Classes of time that differ by a thousandth of the run or more, in seconds."""
        before, after = self.base.breakdown, result.breakdown
        least = LEAST_SHARE * self.base.days * DAY_S
        found = [(n, before[n], after[n]) for n, change in deltas(before, after).items() if abs(change) >= least]
        return tuple((name.replace("_", " "), a, b) for name, a, b in found[:4])

    def freed(self, result: RunFigures) -> tuple[tuple[str, float, float], ...]:
        """Kinds of tensors that differ by one per cent of the reserved peak or more."""
        a, b = self.base.x.step, result.x.step
        before, after = a.memory.at_peak, b.memory.at_peak
        least = 0.01 * a.peak_memory_reserved_bytes
        changes = {name: change for name, change in deltas(before, after).items() if abs(change) >= least}
        return tuple((name, float(before.get(name, 0.0)), float(after.get(name, 0.0))) for name in [*changes][:4])

    def replanned(self, result: RunFigures) -> dict[str, tuple[Any, Any]]:
        """Fields of the resolved plan that are otherwise."""
        return differences(self.base.x.step.plan, result.x.step.plan)

    def also(self, result: RunFigures) -> tuple[tuple[str, float, float], ...]:
        """Every figure of the run before and after, and bytes of host memory that copies take in a node."""
        rows = [
            (name, float(a), float(b))
            for name, a, b in zip(FIGURES, self.base.means, result.means, strict=True)
            if math.isfinite(a) and math.isfinite(b)
        ]
        host = [host_bytes(one.x, one.x.run.checkpoint.tiers) for one in (self.base, result)]
        if host[0] != host[1]:
            rows.append(("host_bytes", host[0], host[1]))
        return tuple(rows)

    def band(self, result: RunFigures, objective: Objective) -> Band:
        """Interval of the ratio after to before: of the paired replications, and of the step where that differs."""
        at = FIGURES.index(objective.figure)
        n = len(result.samples)
        by = result.samples[:, at] - self.base.samples[:n, at]
        mean = float(self.base.means[at])
        ratio = float(result.means[at]) / mean
        error = _TAIL * float(by.std(ddof=1)) / math.sqrt(n) / mean if n > 1 else 0.0
        low, high = max(ratio - error, 1e-9), ratio + error
        basis = f"{n} pairs of runs in the same random numbers"
        a, b = self.base.x.step, result.x.step
        if a.step_time_s != b.step_time_s:
            found = step_ratio(a, b, self.cache)
            if found is None:
                return Band(ratio, ratio, 0.0, NO_BAND)
            basis += f"; of the step: {found.basis}"
            down = math.hypot(math.log(ratio / low), math.log(found.ratio / found.low))
            up = math.hypot(math.log(high / ratio), math.log(found.high / found.ratio))
            low, high = ratio * math.exp(-down), ratio * math.exp(up)
        return Band(low, high, _LEVEL, basis)


def _replicated(x: PreparedRun, first: int, count: int) -> tuple[Floats, Floats]:
    """Figures and seconds by class of replications `first` and later, shapes (count, 4) and (count, classes).

    Raises:
        Infeasible: none of them ends.
    """
    rows, seconds, found = [], [], loop_of(x, first, count)
    for one in found:
        bill = bill_of(x, one.seconds, one.wall_s / DAY_S, [one])
        known = (bill.cost, bill.energy_kwh or None, bill.carbon_kg)
        rows.append([one.wall_s / DAY_S, *(math.nan if v is None else v for v in known)])
        seconds.append(one.seconds)
    if not any(one.finished for one in found):
        raise Infeasible(why_none(x, found))
    return np.array(rows), np.array(seconds)


def _resolved(samples: Floats, base: Floats) -> bool:
    """Whether the days differ surely (80 %), or not at all."""
    by = samples[:, 0] - base[:, 0]
    error = _TAIL * float(by.std(ddof=1)) / math.sqrt(len(by)) if len(by) > 1 else math.inf
    return abs(float(by.mean())) > error or bool(np.allclose(by, 0.0, atol=1e-9 * float(base[:, 0].mean())))
