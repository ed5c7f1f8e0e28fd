"""For how many of n gradients a step waits: the number whose estimated decrease of the loss a second is the most.

A step along the mean ḡ of k gradients with learning rate η lowers a loss of curvature L by η·‖∇F‖² − q·(‖∇F‖² + V/k)
in expectation, q = Lη²/2 and V the variance of one gradient. All of it is estimated from what arrives, late gradients
too: V from the spread of gradients at the same parameters; ‖∇F‖² from the mean of all of the last steps, less its
noise; q from how much of the gradient along ḡ a step has undone. The seconds of a step that waits for k are those of a
replay with the round trips that workers have shown last.

Source: Xu, Neglia and Sebastianelli 2020 (arXiv 2004.14696), section 3.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from math import erfc, exp, pi, sqrt
from typing import TypeVar

import numpy as np

from windtunnel.arrays import Floats, Reals

T = TypeVar("T")
CURVATURE_STEPS = 10
"""Curvature changes slowly: it is averaged over this many windows."""


@dataclass(slots=True)
class _Step:
    """Gradients at the parameters of one step."""

    number: int
    mean: Reals
    """Of those that the step was made with, shape (params,)."""
    k: int
    total: Reals
    """Sum of all that have arrived, late ones too, shape (params,)."""
    count: int
    squares: float
    """Sum of their squared norms."""
    after: float = float("nan")
    """ḡ·(ḡ of the next step)."""

    @property
    def true(self) -> float:
        """‖∇F‖² as the mean product of two different gradients, which noise does not bias; needs two."""
        return (float(self.total @ self.total) - self.squares) / (self.count * (self.count - 1))


@dataclass(slots=True)
class Decrease:
    """Estimates of what a step with k gradients gains."""

    window: int
    """Steps over which estimates are averaged."""
    _steps: deque[_Step] = field(default_factory=deque)
    _spreads: deque[float] = field(default_factory=deque)
    """Estimates of V."""
    _turns: deque[tuple[float, float]] = field(default_factory=deque)
    """(∇F·ḡ less ∇F·ḡ after the step, ‖ḡ‖²) of steps that have left the window, of which nothing more comes."""

    def see(self, step: int, rows: Reals) -> None:
        """Gradients of a step, shape (k, params)."""
        k = len(rows)
        total = rows.sum(axis=0, dtype=np.float64)
        mean = total / k
        if k > 1:
            away = rows - mean
            _keep(self._spreads, float((away * away).sum() / (k - 1)), self.window)
        if self._steps:
            self._steps[-1].after = float(self._steps[-1].mean @ mean)
        self._steps.append(_Step(step, mean, k, total, k, float((rows.astype(float) ** 2).sum())))
        if len(self._steps) > self.window:
            old = self._steps.popleft()
            if old.count > 1:
                turned = (old.true - old.after, float(old.mean @ old.mean))
                _keep(self._turns, turned, CURVATURE_STEPS * self.window)

    def late(self, step: int, row: Reals) -> None:
        """A gradient at the parameters of an earlier step, shape (params,)."""
        for known in self._steps:
            if known.number == step:
                away = row - known.mean
                _keep(self._spreads, float(away @ away) * known.k / (known.k + 1.0), self.window)
                known.total += row
                known.count += 1
                known.squares += float(row @ row)
                return

    @property
    def variance(self) -> float:
        """V, the mean over the window."""
        return float(np.mean(self._spreads))

    @property
    def true(self) -> float:
        """‖∇F‖²: what is expected of it, since it is not below 0, from the squared mean of the window less its noise.

        The estimate is off by about the noise of the mean times √(2/params) (as the square of normal noise is).
        """
        count = sum(step.count for step in self._steps)
        mean = np.sum([step.total for step in self._steps], axis=0) / count
        noise = self.variance / count
        return mean_above_zero(float(mean @ mean) - noise, noise * sqrt(2.0 / len(mean)))

    def gains(self, n: int, lr: float) -> Floats | None:
        """Expected decrease with 1 … n gradients, shape (n,); None where too little was seen."""
        if not self._turns or not self._spreads:
            return None
        turned, own = np.array(self._turns).sum(axis=0)
        q = max(0.0, 0.5 * lr * float(turned) / max(float(own), 1e-300))
        true = self.true
        return np.asarray(lr * true - q * (true + self.variance / np.arange(1, n + 1)))


def mean_above_zero(estimate: float, error: float) -> float:
    """Mean of a normal law around an estimate, cut off below 0."""
    if error <= 0.0:
        return max(0.0, estimate)
    z = estimate / error
    if z < -30.0:
        return error / -z
    share = 0.5 * erfc(-z / sqrt(2.0))
    return estimate + error * exp(-0.5 * z * z) / sqrt(2.0 * pi) / share


def _keep(to: deque[T], value: T, most: int) -> None:
    to.append(value)
    if len(to) > most:
        to.popleft()


@dataclass(slots=True)
class RoundTrips:
    """Seconds between a worker's fetch and its arrival, the last few of each."""

    remembered: int = 4
    _of: dict[int, deque[float]] = field(default_factory=dict)

    def see(self, worker: int, seconds: float) -> None:
        """A round trip has ended."""
        self._of.setdefault(worker, deque(maxlen=self.remembered)).append(seconds)

    def step_seconds(self, n: int, steps: int = 24) -> Floats | None:
        """Seconds of a step that waits for 1 … n arrivals, shape (n,); None where no worker has arrived yet.

        Workers go through the round trips that they have shown last, in turn; one that has shown none takes the
        longest. Those who arrive late go on with the newest parameters at once.
        """
        if not self._of:
            return None
        longest = max(max(trips) for trips in self._of.values())
        trips = [list(self._of.get(worker, (longest,))) for worker in range(n)]
        return np.array([_replayed(trips, k, steps) for k in range(1, n + 1)])


def _replayed(trips: list[list[float]], k: int, steps: int) -> float:
    """Mean seconds of steps that wait for k arrivals, the first quarter left out."""
    turns = [0] * len(trips)
    on_way = [(own[0], worker, 0) for worker, own in enumerate(trips)]
    heapify(on_way)
    warm, step, count = steps // 4, 0, 0
    begun = now = 0.0
    delivered: list[int] = []
    far = 1e300
    while step < steps:
        now, worker, of_step = on_way[0]
        if of_step != step:
            turns[worker] += 1
            own = trips[worker]
            heapreplace(on_way, (now + own[turns[worker] % len(own)], worker, step))
            continue
        heapreplace(on_way, (far, worker, -1))
        delivered.append(worker)
        count += 1
        if count == k:
            step, count = step + 1, 0
            if step == warm:
                begun = now
            waiting = set(delivered)
            on_way = [entry for entry in on_way if entry[1] not in waiting]
            for ready in delivered:
                turns[ready] += 1
                own = trips[ready]
                on_way.append((now + own[turns[ready] % len(own)], ready, step))
            heapify(on_way)
            delivered.clear()
    return (now - begun) / (steps - warm)


def best_number(gains: Floats | None, seconds: Floats | None, n: int, last: int) -> int:
    """K with the most gain a second; all n where no number gains anything; as before where nothing is known."""
    if gains is None or seconds is None:
        return last
    if not (gains > 0.0).any():
        return n
    return int(np.argmax(gains / seconds)) + 1
