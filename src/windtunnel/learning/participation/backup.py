"""For how many of n gradients a step waits: the number whose estimated decrease of the loss a second is the most.

A step along the mean ḡ of k gradients with learning rate η lowers a loss of curvature L by
η·‖∇F‖² − (Lη²/2)·(‖∇F‖² + V/k) in expectation, V the variance of one gradient. All of it is estimated from what has
arrived: V from the spread of gradients, ‖∇F‖² from their mean, L from how far the last steps have lowered the loss. The
time of k arrivals is the mean over the last steps; where too few have come, it is that of fewer (so that more are
tried again).

Source: Xu, Neglia and Sebastianelli 2020 (arXiv 2004.14696), section 3.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Reals


@dataclass(slots=True)
class Decrease:
    """Estimates of what a step with k gradients gains."""

    window: int
    """Steps over which estimates are averaged."""
    _seen: deque[tuple[float, float, float, float]] = field(default_factory=deque)
    """(loss, ‖ḡ‖², variance of one gradient, number) of each step."""

    def see(self, rows: Reals, loss: float) -> None:
        """Gradients of a step, shape (k, params), and the mean loss of their batches."""
        mean = rows.mean(axis=0)
        k = len(rows)
        away = rows - mean
        variance = float((away.astype(float) ** 2).sum() / (k - 1)) if k > 1 else float("nan")
        self._seen.append((loss, float((mean.astype(float) ** 2).sum()), variance, k))
        if len(self._seen) > self.window + 1:
            self._seen.popleft()

    def gains(self, n: int, lr: float) -> Floats | None:
        """Expected decrease with 1 … n gradients, shape (n,); None where too little was seen."""
        if len(self._seen) < 2 or lr <= 0.0:
            return None
        loss, squared, variance, k = np.array(self._seen).T
        known = ~np.isnan(variance)
        if not known.any():
            return None
        v = float(variance[known].mean())
        true = max(float((squared - v / k).mean()), 0.0)
        steps = len(loss) - 1
        spent = lr * float((squared[:-1] - v / k[:-1]).sum()) - float(loss[0] - loss[-1])
        curved = max(0.0, spent / max(float(squared[:-1].sum()), 1e-300)) if steps else 0.0
        return np.asarray(lr * true - curved * (true + v / np.arange(1, n + 1)))


@dataclass(slots=True)
class ArrivalTimes:
    """Mean seconds until the k-th gradient of a step has arrived."""

    window: int
    """Steps over which times are averaged."""
    _steps: deque[tuple[int, float, list[float]]] = field(default_factory=deque)
    """(number, begin, seconds of its arrivals) of each step."""

    def begins(self, step: int, now_s: float) -> None:
        """A step begins."""
        self._steps.append((step, now_s, []))
        if len(self._steps) > self.window + 1:
            self._steps.popleft()

    def arrives(self, step: int, now_s: float) -> None:
        """A gradient of a step has arrived, in time or late."""
        for number, begin_s, arrivals in self._steps:
            if number == step:
                arrivals.append(now_s - begin_s)
                return

    def seconds(self, n: int) -> Floats | None:
        """Of the first 1 … n arrivals, ascending, shape (n,); None where nothing has arrived."""
        out = np.zeros(n)
        for k in range(n):
            times = [arrivals[k] for _, _, arrivals in self._steps if len(arrivals) > k]
            out[k] = max(out[k - 1] if k else 0.0, float(np.mean(times)) if times else 0.0)
        return out if out[0] > 0.0 else None


def best_number(gains: Floats | None, seconds: Floats | None, n: int) -> int:
    """K with the most gain a second; all n where nothing is known, or where no number gains anything."""
    if gains is None or seconds is None or not (gains > 0.0).any():
        return n
    return int(np.argmax(gains / seconds)) + 1
