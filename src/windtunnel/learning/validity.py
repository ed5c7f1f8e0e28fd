"""The validity gate: whether a proxy's order of algorithms may be believed.

A small task orders algorithms only where it is far enough from its own limits. Three conditions have to hold: at least
50 outer rounds ran; one worker alone is worse than data parallelism by more than five noise widths, so that what
workers give each other shows at all; and a doubled learning rate keeps the order. Where one fails, the order is not
resolved, and the reason is reported. Absolute losses never extrapolate to a larger model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.algorithms.base import LockStepAlgorithm

MIN_OUTER_ROUNDS = 50
MIN_NOISE_WIDTHS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalLosses:
    """How an algorithm ended, by seed."""

    label: str
    loss: Floats
    """Loss at the end, or what of it lies above the floor, shape (seeds,); infinite where a run diverged."""
    doubled: Floats | None = None
    """The same at twice the learning rate, shape (seeds,); None where that was not run."""
    outer_rounds: int
    """Exchanges that ran (`outer_rounds`)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an algorithm's place in the order is resolved; why not, one line a reason."""

    resolved: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two algorithms on the same seeds."""

    gap: float
    """Mean over seeds of second − first: positive where the first is better."""
    low: float
    """Smallest gap of a seed."""
    high: float
    """Largest gap of a seed."""
    noise: float
    """Noise width of either loss (`pair_noise`)."""

    @property
    def direction(self) -> int:
        """1: the first is better in the mean by more than the noise; −1: the second; 0: a tie."""
        return int(np.sign(self.gap)) if abs(self.gap) > self.noise else 0


def noise_width(losses: Sequence[Floats]) -> float:
    """The task's noise: median over algorithms of the standard deviation over seeds.

    The median, since one algorithm on the verge of diverging says nothing of the others.

    Args:
        losses: One array of shape (seeds,) for each algorithm; infinite losses are left out.

    Returns:
        NaN where no algorithm has two finite runs.
    """
    spreads = [float(x.std(ddof=1)) for each in losses if len(x := each[np.isfinite(each)]) > 1]
    return float(np.median(spreads)) if spreads else float("nan")


def pair_noise(first: Floats, second: Floats, noise: float) -> float:
    """Noise of a comparison: the task's, or the standard deviation pooled over the two where that is larger."""
    spreads = [x.var(ddof=1) for each in (first, second) if len(x := each[np.isfinite(each)]) > 1]
    return max(noise, float(np.sqrt(np.mean(spreads)))) if spreads else noise


def compare(first: Floats, second: Floats, noise: float) -> Comparison:
    """How two algorithms differ on the same seeds; a diverged run is worse than any other.

    Args:
        first: Losses, shape (seeds,).
        second: Losses, shape (seeds,).
        noise: Of the task (`noise_width`).
    """
    noise = pair_noise(first, second, noise)
    gaps = np.array([_gap(a, b) for a, b in zip(first, second, strict=True)])
    return Comparison(gap=float(gaps.mean()), low=float(gaps.min()), high=float(gaps.max()), noise=noise)


def judge(algorithms: Sequence[FinalLosses], *, one_worker: Floats, data_parallel: Floats) -> dict[str, Verdict]:
    """Whether each algorithm's place among the others is resolved.

    Args:
        algorithms: All that are compared, on the same seeds.
        one_worker: Losses of one worker alone with the same steps, shape (seeds,).
        data_parallel: Losses of data parallelism, shape (seeds,).

    Returns:
        A verdict for each label.
    """
    noise = noise_width([one_worker, data_parallel, *(a.loss for a in algorithms)])
    common: list[str] = []
    if not np.isfinite(noise):
        common.append("one seed: the noise is not known; at least two are needed")
    else:
        apart = float(np.mean(one_worker) - np.mean(data_parallel))
        width = f"{noise:.3g}"
        if not apart > MIN_NOISE_WIDTHS * noise:
            common.append(
                f"one worker alone ends {apart:+.3g} from data parallelism, not more than {MIN_NOISE_WIDTHS:g} noise "
                f"widths of {width}: the task gains too little from more workers"
            )
    doubled_noise = noise_width([a.doubled for a in algorithms if a.doubled is not None])
    return {a.label: _verdict(a, algorithms, noise, doubled_noise, common) for a in algorithms}


def outer_rounds(algorithm: LockStepAlgorithm, steps: int) -> int:
    """Exchanges of a run: local steps whose end, or backward, sends the first fragment.

    Args:
        algorithm: Built for two workers or more: one alone sends nothing.
        steps: Local steps of a worker.
    """
    return sum(any(m.fragment.index == 0 for m in algorithm.messages(step)) for step in range(steps))


def _verdict(
    one: FinalLosses, others: Sequence[FinalLosses], noise: float, doubled_noise: float, common: list[str]
) -> Verdict:
    reasons = list(common)
    if one.outer_rounds < MIN_OUTER_ROUNDS:
        reasons.append(f"{one.outer_rounds} outer rounds ran; at least {MIN_OUTER_ROUNDS} are needed")
    if not np.isfinite(one.loss).all():
        reasons.append("a run diverged")
    if one.doubled is None:
        reasons.append("a doubled learning rate was not run")
    elif np.isfinite(noise):
        wider = doubled_noise if np.isfinite(doubled_noise) else noise
        for other in others:
            if other is one or other.doubled is None:
                continue
            before = compare(one.loss, other.loss, noise)
            after = compare(one.doubled, other.doubled, wider)
            if before.direction * after.direction < 0:
                reasons.append(
                    f"a doubled learning rate turns the order with {other.label}: a gap of {before.gap:+.3g} becomes "
                    f"{after.gap:+.3g}"
                )
    return Verdict(not reasons, tuple(reasons))


def _gap(first: float, second: float) -> float:
    """Second − first, where two infinite losses are a tie."""
    return 0.0 if first == second else float(second - first)
