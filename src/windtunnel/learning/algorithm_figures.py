"""Figures of an algorithm from its curves and its clock: seed bands, gap, time to target, energy and money."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.drivers.lock_step import Curve
from windtunnel.learning.plain_clock import Clock
from windtunnel.learning.prepare import ChosenAlgorithm, PreparedLearning
from windtunnel.learning.records import AlgorithmFigures, TimedCurve
from windtunnel.specs.learning import TargetSpec


@dataclass(frozen=True, slots=True)
class AlgorithmRun:
    """All seeds of an algorithm on one clock."""

    algorithm: ChosenAlgorithm
    clock: Clock
    curves: tuple[TimedCurve, ...]

    @property
    def last_losses(self) -> Floats:
        """Loss at the end of each seed that got there."""
        return np.array([c.loss[-1] for c in self.curves if c.diverged_at is None and len(c.loss)])


def timed_curve(x: PreparedLearning, algorithm: ChosenAlgorithm, seed: int, curve: Curve, clock: Clock) -> TimedCurve:
    """A curve with the clock's sums at its points."""
    del x
    at = curve.steps
    return TimedCurve(
        algorithm=algorithm.label,
        seed=seed,
        step=at,
        loss=curve.loss,
        metric=curve.metric,
        time_s=clock.end_s[at],
        bytes=clock.bytes[at],
        joules=clock.joules[at],
        diverged_at=curve.diverged_at,
    )


def algorithm_figures(x: PreparedLearning, run: AlgorithmRun, baseline: AlgorithmRun | None) -> AlgorithmFigures:
    """What is told of an algorithm.

    Args:
        x: The scenario.
        run: Its curves.
        baseline: Data parallelism, where it is among the algorithms.
    """
    losses = run.last_losses
    ended = len(losses) > 0
    metrics = np.array([c.metric[-1] for c in run.curves if c.diverged_at is None and len(c.metric)])
    reached = [reached_at(c, x.spec.target) for c in run.curves]
    times = np.array([t for t in reached if t is not None])
    whole = len(times) == len(run.curves) > 0
    end_s = float(run.clock.end_s[-1])
    timed = bool(np.isfinite(end_s))
    target = x.target
    joules = float(run.clock.joules[-1])
    money = target.dollars_per_hour
    return AlgorithmFigures(
        label=run.algorithm.label,
        id=run.algorithm.kind.id,
        family=run.algorithm.kind.family,
        knobs=run.algorithm.knobs,
        driver=run.algorithm.kind.driver,
        loss=float(losses.mean()) if ended else None,
        loss_low=float(losses.min()) if ended else None,
        loss_high=float(losses.max()) if ended else None,
        metric=float(metrics.mean()) if len(metrics) and np.isfinite(metrics).all() else None,
        gap=_gap(losses, baseline),
        hours=end_s / 3600.0 if timed else None,
        bytes_per_worker=float(run.clock.bytes[-1]),
        bytes_per_worker_step=float(run.clock.bytes[-1]) / x.spec.steps,
        bytes_by_link=run.clock.by_link,
        kwh=joules / 3.6e6 if np.isfinite(joules) else None,
        cost=money * x.spec.workers * end_s / 3600.0 if timed and money is not None else None,
        utilisation=run.clock.utilisation,
        staleness=run.clock.staleness,
        time_to_target_s=float(times.mean()) if whole and np.isfinite(times).all() else None,
        time_to_target_band_s=(float(times.min()), float(times.max())) if whole and np.isfinite(times).all() else None,
        reached=len(times),
        diverged=tuple((c.seed, c.diverged_at) for c in run.curves if c.diverged_at is not None),
        resolved=None,
    )


def _gap(losses: Floats, baseline: AlgorithmRun | None) -> float | None:
    """Mean loss at the end over that of data parallelism, less one."""
    if baseline is None or not len(losses) or not len(baseline.last_losses):
        return None
    base = float(baseline.last_losses.mean())
    return float(losses.mean()) / base - 1.0 if base > 0 else None


def reached_at(curve: TimedCurve, target: TargetSpec | None) -> float | None:
    """Simulated seconds of the first point that is as good as the target; NaN without a clock, None if none is."""
    if target is None:
        return None
    good = curve.loss <= target.loss if target.loss is not None else curve.metric >= (target.metric or 0.0)
    at = np.flatnonzero(good)
    return float(curve.time_s[at[0]]) if len(at) else None
