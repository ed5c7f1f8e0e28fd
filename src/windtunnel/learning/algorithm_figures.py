"""Figures of an algorithm from its curves and its clock: seed intervals, gap, time to target, energy and money."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.curves import Learned
from windtunnel.learning.drivers.arrival_results import ArrivalCurve
from windtunnel.learning.drivers.lock_step import Curve
from windtunnel.learning.prepare_learning import ChosenAlgorithm, PreparedLearning
from windtunnel.learning.records import AlgorithmFigures, TimedCurve
from windtunnel.learning.timing.lock_step import LockStepTiming
from windtunnel.learning.validity import Verdict, outer_rounds
from windtunnel.specs.learning import TargetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a whole run has cost; with arrivals, the mean of the seeds."""

    seconds: float
    bytes_per_worker: float
    by_link: dict[str, float]
    joules: float
    dollars: float
    utilisation: float | None
    rounds: int
    """Exchanges, or steps of the server."""
    staleness: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlgorithmRun:
    """All seeds of an algorithm on the clock."""

    algorithm: ChosenAlgorithm
    curves: tuple[TimedCurve, ...]
    totals: Totals

    @property
    def last_losses(self) -> Floats:
        """Loss at the end of each seed; infinite where the run diverged."""
        return np.array([c.loss[-1] if c.diverged_at is None and len(c.loss) else np.inf for c in self.curves])

    @property
    def finite_losses(self) -> Floats:
        """The same of the runs that ended."""
        losses = self.last_losses
        return np.asarray(losses[np.isfinite(losses)])


def algorithm_run(x: PreparedLearning, algorithm: ChosenAlgorithm, learned: list[tuple[int, Learned]]) -> AlgorithmRun:
    """Curves of an algorithm on the clock of the target.

    Args:
        x: The scenario.
        algorithm: One of its algorithms.
        learned: Seed and what was learned from it.
    """
    if algorithm.kind.driver == "arrivals":
        late = [(seed, one.curve) for seed, one in learned if isinstance(one.curve, ArrivalCurve)]
        curves = tuple(_of_arrivals(x, algorithm, seed, curve) for seed, curve in late)
        return AlgorithmRun(algorithm, curves, _totals_of_arrivals(x, curves, [curve for _, curve in late]))
    steady = [(seed, one.curve) for seed, one in learned if isinstance(one.curve, Curve)]
    if x.elastic(algorithm, x.spec.seed) is not None:
        return _elastic_run(x, algorithm, steady)
    timing = x.timing(algorithm)
    curves = tuple(_of_steps(x, algorithm, seed, curve, timing) for seed, curve in steady)
    return AlgorithmRun(algorithm, curves, _totals_of_steps(x, algorithm, timing))


def _elastic_run(x: PreparedLearning, algorithm: ChosenAlgorithm, steady: list[tuple[int, Curve]]) -> AlgorithmRun:
    """Each seed on a clock of its own; totals are the mean of the seeds."""
    curves: list[TimedCurve] = []
    totals: list[Totals] = []
    lost: list[int] = []
    for seed in x.seeds:
        rounds = x.elastic(algorithm, seed)
        assert rounds is not None
        timing = x.elastic_timing(algorithm, seed, rounds)
        curves += [_of_steps(x, algorithm, seed, curve, timing) for number, curve in steady if number == seed]
        totals.append(_totals_of_steps(x, algorithm, timing))
        lost.append(rounds.failures)
    notes = [f"{np.mean(lost):,.1f} times a worker was lost in a round; the others went on without it"]
    if any(lost):
        notes.append("bytes of exchanges that were given up are not counted")
    mean = Totals(
        seconds=float(np.mean([t.seconds for t in totals])),
        bytes_per_worker=float(np.mean([t.bytes_per_worker for t in totals])),
        by_link={
            name: float(np.mean([t.by_link.get(name, 0.0) for t in totals]))
            for name in dict.fromkeys(n for t in totals for n in t.by_link)
        },
        joules=float(np.mean([t.joules for t in totals])),
        dollars=float(np.mean([t.dollars for t in totals])),
        utilisation=float(np.mean([t.utilisation or 0.0 for t in totals])),
        rounds=totals[0].rounds,
        notes=tuple(notes),
    )
    return AlgorithmRun(algorithm, tuple(curves), mean)


def _of_steps(
    x: PreparedLearning, algorithm: ChosenAlgorithm, seed: int, curve: Curve, timing: LockStepTiming
) -> TimedCurve:
    at = timing.at(curve.steps)
    nothing = np.full(len(curve.steps), np.nan)
    return TimedCurve(
        algorithm=algorithm.label,
        seed=seed,
        step=curve.steps,
        loss=curve.loss,
        metric=curve.metric,
        time_s=at.time_s if x.target.timed else nothing,
        bytes=at.worker_bytes,
        joules=at.joules if x.target.timed and x.target.powered else nothing,
        diverged_at=curve.diverged_at,
    )


def _totals_of_steps(x: PreparedLearning, algorithm: ChosenAlgorithm, timing: LockStepTiming) -> Totals:
    end = timing.at([x.spec.steps])
    timed = x.target.timed
    key = x.key(algorithm, x.spec.seed)
    rounds = outer_rounds(algorithm.kind.build(x.job(key), dict(algorithm.knobs)), x.spec.steps)
    return Totals(
        seconds=float(end.time_s[0]) if timed else float("nan"),
        bytes_per_worker=float(end.worker_bytes[0]),
        by_link=timing.link_bytes,
        joules=float(end.joules[0]) if timed and x.target.powered else float("nan"),
        dollars=float(end.dollars[0]) if timed else float("nan"),
        utilisation=timing.utilisation if timed else None,
        rounds=rounds,
    )


def _of_arrivals(x: PreparedLearning, algorithm: ChosenAlgorithm, seed: int, curve: ArrivalCurve) -> TimedCurve:
    good = curve.ended != "diverged"
    return TimedCurve(
        algorithm=algorithm.label,
        seed=seed,
        step=curve.steps,
        loss=curve.loss,
        metric=curve.metric,
        time_s=curve.time_s,
        bytes=curve.point_bytes / x.spec.workers,
        joules=_joules(x, curve.time_s, curve.point_compute_s, curve.point_bytes),
        diverged_at=None if good else int(curve.steps[-1]) if len(curve.steps) else 0,
    )


def _joules(x: PreparedLearning, time_s: Floats, compute_s: Floats, nbytes: Floats) -> Floats:
    """Of all workers: computing, waiting, and bytes on their links."""
    if not x.target.powered:
        return np.full(np.shape(time_s), np.nan)
    t = x.target.target
    waiting = np.maximum(x.spec.workers * time_s - compute_s, 0.0)
    per_byte = 0.0 if t.link is None else t.link.joules_per_byte
    return np.asarray(compute_s * t.step_watts + waiting * t.idle_watts + nbytes * per_byte)


def _totals_of_arrivals(x: PreparedLearning, curves: tuple[TimedCurve, ...], found: list[ArrivalCurve]) -> Totals:
    if not found:
        nothing = float("nan")
        return Totals(
            seconds=nothing,
            bytes_per_worker=nothing,
            by_link={},
            joules=nothing,
            dollars=nothing,
            utilisation=None,
            rounds=0,
        )
    workers = x.spec.workers
    up = float(np.mean([c.bytes_up for c in found]))
    down = float(np.mean([c.bytes_down for c in found]))
    seconds = float(np.mean([c.duration_s for c in found]))
    price = x.target.target.price_per_hour
    longest = max(len(c.staleness) for c in found)
    histogram = np.sum([np.pad(c.staleness, (0, longest - len(c.staleness))) for c in found], axis=0)
    merged = int(histogram.sum())
    late = np.flatnonzero(histogram)
    mean = float((histogram * np.arange(longest)).sum() / merged) if merged else 0.0
    notes = []
    if any(c.failures for c in found):
        notes.append(f"{np.mean([c.failures for c in found]):,.1f} failures of workers")
    if any(c.given_up or c.dropped for c in found):
        lost = np.mean([c.given_up + c.dropped for c in found])
        notes.append(f"{lost:,.1f} of {np.mean([c.uploads for c in found]):,.1f} uploads were given up or thrown away")
    ends = {c.ended for c in found} - {"steps", "diverged", "target"}
    notes += [f"ended early: {why}" for why in sorted(ends)]
    return Totals(
        seconds=seconds,
        bytes_per_worker=(up + down) / workers,
        by_link={"up to the server": up, "down from the server": down},
        joules=float(np.mean([c.joules[-1] for c in curves])) if all(len(c.joules) for c in curves) else np.nan,
        dollars=np.nan if price is None else workers * seconds / 3600.0 * price,
        utilisation=float(np.mean([c.utilisation.mean() for c in found])),
        rounds=min(int(c.server_steps[-1]) if len(c.server_steps) else 0 for c in found),
        staleness={
            "mean": mean,
            "max": int(late[-1]) if merged else 0,
            "histogram": {str(s): int(histogram[s]) / merged for s in late} if merged else {},
        },
        notes=tuple(notes),
    )


def algorithm_figures(
    x: PreparedLearning, run: AlgorithmRun, baseline: AlgorithmRun | None, verdict: Verdict | None
) -> AlgorithmFigures:
    """What is notified of an algorithm.

    Args:
        x: The scenario.
        run: Its curves.
        baseline: Data parallelism, where it is among the algorithms.
        verdict: Whether its place in the order is resolved; None where that was not asked.
    """
    losses = run.finite_losses
    ended = len(losses) > 0
    metrics = np.array([c.metric[-1] for c in run.curves if c.diverged_at is None and len(c.metric)])
    reached = [reached_at(c, x.spec.target) for c in run.curves]
    times = np.array([t for t in reached if t is not None])
    whole = len(times) == len(run.curves) > 0 and bool(np.isfinite(times).all())
    t = run.totals
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
        hours=_known(t.seconds, 1 / 3600.0),
        bytes_per_worker=t.bytes_per_worker,
        bytes_per_worker_step=t.bytes_per_worker / x.spec.steps,
        bytes_by_link=t.by_link,
        kwh=_known(t.joules, 1 / 3.6e6),
        cost=_known(t.dollars),
        utilisation=t.utilisation,
        rounds=t.rounds,
        staleness=t.staleness,
        time_to_target_s=float(times.mean()) if whole else None,
        time_to_target_band_s=(float(times.min()), float(times.max())) if whole else None,
        reached=len(times),
        diverged=tuple((c.seed, c.diverged_at) for c in run.curves if c.diverged_at is not None),
        resolved=None if verdict is None else verdict.resolved,
        reasons=() if verdict is None else verdict.reasons,
        notes=t.notes,
    )


def _known(value: float, scale: float = 1.0) -> float | None:
    return value * scale if np.isfinite(value) else None


def _gap(losses: Floats, baseline: AlgorithmRun | None) -> float | None:
    """Mean loss at the end over that of data parallelism, less one."""
    if baseline is None or not len(losses) or not len(baseline.finite_losses):
        return None
    base = float(baseline.finite_losses.mean())
    return float(losses.mean()) / base - 1.0 if base > 0 else None


def reached_at(curve: TimedCurve, target: TargetSpec | None) -> float | None:
    """Simulated seconds of the first point that is as good as the target; NaN without a clock, None if none is."""
    if target is None:
        return None
    good = curve.loss <= target.loss if target.loss is not None else curve.metric >= (target.metric or 0.0)
    at = np.flatnonzero(good)
    return float(curve.time_s[at[0]]) if len(at) else None
