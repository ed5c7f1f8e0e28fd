"""Result of a run's replications. Units are in the names; everything converts to plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.charts.chart import Panels
from windtunnel.runs.ettr import conventions
from windtunnel.runs.event_loop.program import CLASSES
from windtunnel.specs.run import DAY_S
from windtunnel.versions import RESULT_SCHEMA

_QUANTILES = 99
GOOGLE_BADPUT = {
    "lost_progress": "wasted_progress_from_disruption",
    "save": "checkpoint_save",
    "degraded": "degraded_steps",
    "straggler": "slow_steps",
    "detect": "disruption_detection",
    "diagnose": "disruption_diagnosis",
    "wait_for_nodes": "infrastructure_recovery",
    "schedule": "job_scheduling",
    "initialise": "accelerator_initialization",
    "load": "checkpoint_restore",
    "compile": "program_startup",
    "refill": "data_loading",
    "maintenance": "maintenance",
}
"""Class of time of the loop → class of badput; names of ml-goodput-measurement where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A predicted run: its distribution of days, where the time goes, and what it costs."""

    scenario_name: str
    days: dict[str, float]
    """mean, p10, p50, p90 of the wall time."""
    interval: dict[str, float]
    """low and high of the days (80 %): interval of the step time, chance, and rates of failures as far as the profile
    says how well they are known."""
    ideal_days: float
    goodput: float
    """Share of the wall time in steps that count, at the speed of the undisturbed step."""
    ettr: dict[str, float]
    """Effective training time ratio by convention (`windtunnel.runs.ettr`)."""
    badput: dict[str, float]
    """Class → share of the wall time."""
    failures_mean: float
    failures_by_cause: dict[str, float]
    restarts_mean: float
    finished: float
    """Share of the replications that ended within `run.limit_days`."""
    checkpoint: dict[str, Any]
    spares: int
    cost: float | None
    currency: str
    energy_kwh: float
    carbon_kg: float | None
    measured_step: bool = False
    """The step time is that of a log, not predicted."""
    begins_after_s: float | None
    """Seconds after `start` at which a run that may wait emits least (`start_within`); None where it may not."""
    replications: int
    step_time_s: float
    steps: float
    tokens: float
    failure_profile: str
    sensitivities: dict[str, float]
    """Change → relative change of the mean days; negative is faster."""
    sensitivity_intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Change → 80 % interval of that, from the differences in the same random numbers; empty for one replication."""
    spot: dict[str, Any] | None = None
    """A spot fleet: nodes_held and nodes_in_job (means), reclaims and reclaimed_nodes of the running job,
    price_per_device_hour, and on_demand: days, cost and price_per_device_hour of the same run on nodes that stay."""
    replans: tuple[dict[str, Any], ...] = ()
    """Of `policy: reshape`: nodes left, and the plan from there on; the first is the scenario's own."""
    replicas_only: dict[str, Any] | None = None
    """Of `policy: reshape`, the same run under `shrink` in the same random numbers: days, cost, and days_more: mean,
    low and high (80 %) of what it takes longer."""
    spares_curve: tuple[dict[str, Any], ...] = ()
    """Days and cost by number of hot spares: spares, days, cost."""
    interval_curve: tuple[dict[str, float], ...] = ()
    """Days by save interval: interval_s, days."""
    assumed: tuple[tuple[str, str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    """Class of time → mean seconds; the values sum to the mean wall time."""
    every_days: tuple[float, ...] = ()
    """Days of every replication."""
    stops: tuple[dict[str, Any], ...] = ()
    """Stops of the first replication: day, cause, lost_s, down_s, progress."""
    scenario: dict[str, Any] = field(default_factory=dict)
    techniques: tuple[str, ...] = ()
    """Published systems that act on the step or on the run."""
    citations: tuple[str, ...] = ()
    version: str = ""
    simulated_in_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data as `--json` prints it."""
        out: dict[str, Any] = {"schema_version": RESULT_SCHEMA}
        out |= {name: getattr(self, name) for name in self.__slots__ if name != "every_days"}
        out["days_histogram"] = self.days_histogram
        out["assumed"] = [{"field": f, "value": v, "why": w} for f, v, w in self.assumed]
        return out

    @property
    def days_histogram(self) -> dict[str, list[float] | list[int]]:
        """How many replications took how many days: `edges_days` (ascending, one more than bins), `counts` a bin."""
        return histogram(self.every_days)

    def figure(self) -> Panels:
        """Charts: progress with its stops, where the time goes, and the distribution of days."""
        from windtunnel.runs.charts import run_figure

        return run_figure(self)

    def __repr__(self) -> str:
        d = self.days
        spread = f"{d['mean']:.1f} days ({d['p10']:.1f} to {d['p90']:.1f})"
        return f"<{self.scenario_name}: {spread}, goodput {self.goodput:.3f}>"


def day_figures(days: Floats) -> dict[str, float]:
    """Mean, P10, P50 and P90 of the days of the replications."""
    p10, p50, p90 = np.percentile(days, [10, 50, 90]).tolist()
    return {"mean": float(days.mean()), "p10": p10, "p50": p50, "p90": p90}


def histogram(every_days: Sequence[float]) -> dict[str, list[float] | list[int]]:
    """Days of the replications in bins of equal width: one for eight replications, at least 5 and at most 40.

    Returns:
        `edges_days`, ascending, and `counts`; a bin holds its lower edge, the last one both; empty without days.
    """
    if not every_days:
        return {"edges_days": [], "counts": []}
    counts, edges = np.histogram(every_days, bins=min(max(len(every_days) // 8, 5), 40))
    return {"edges_days": edges.tolist(), "counts": counts.tolist()}


def joint_band(days: Floats, low: float, high: float) -> dict[str, float]:
    """80 % interval of the days of one run, whose step takes `low` to `high` (80 %) of what was simulated.

    The days of every replication times every percentile of the step's factor, a lognormal distribution with a spread
    of its own below the predicted step and above it: both are independent.

    Args:
        days: Of the replications, drawn rates included.
        low: Factor on the step at its 10th percentile, at most 1.
        high: At its 90th, at least 1.
    """
    from scipy.special import ndtri

    z = np.asarray(ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES))
    tail = float(ndtri(0.9))
    factors = np.exp(np.where(z < 0, -np.log(low), np.log(high)) * z / tail)
    ends = np.percentile(np.outer(days, factors), [10, 90]).tolist()
    return {"low": ends[0], "high": ends[1]}


def shares(seconds: Floats) -> tuple[float, dict[str, float], dict[str, float]]:
    """(goodput, ETTR by convention, badput by class) of mean seconds by class, in the order of `CLASSES`."""
    by = dict(zip(CLASSES, seconds.tolist(), strict=True))
    wall = float(seconds.sum())
    badput = {GOOGLE_BADPUT[name]: value / wall for name, value in by.items() if name != "work"}
    return by["work"] / wall, conventions(by), badput


def stop_rows(stops: Floats, causes: tuple[str, ...], work_s: float) -> tuple[dict[str, Any], ...]:
    """Logged stops as plain rows."""
    return tuple(
        {
            "day": at / DAY_S,
            "cause": causes[int(kind)] if kind >= 0 else "planned" if kind == -1 else "nodes reclaimed",
            "lost_s": lost,
            "down_s": down,
            "progress": done / work_s,
        }
        for at, done, lost, down, kind in stops.tolist()
    )
