"""How long the local steps of a worker's round take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.randomness import Draws

_WORKERS, _ROUNDS = 64, 8
"""Workers and rounds whose draws are made at once."""


class Pace(Protocol):
    """Seconds of computing."""

    def round_s(self, worker: int, round_number: int, steps: int, now_s: float) -> float:
        """Seconds of `steps` local steps of a worker's round (counted from 0) that begins now."""


@dataclass(slots=True)
class DrawnPace:
    """Seconds of a step × the worker's factor × what its round draws by (seed, worker, round)."""

    step_s: float
    """Seconds of one local step of the typical worker."""
    factors: Floats
    """Of each worker, shape (workers,)."""
    draws: Draws
    jitter: float = 0.0
    """Standard deviation of the logarithm of a round's seconds; their mean stays that of the worker."""
    exponential: bool = False
    """A round takes an exponential time with the worker's mean."""
    _drawn: dict[tuple[int, int], list[list[float]]] = field(default_factory=dict)

    def round_s(self, worker: int, round_number: int, steps: int, now_s: float) -> float:
        """See `Pace.round_s`."""
        del now_s
        seconds = self.step_s * float(self.factors[worker]) * steps
        if not self.jitter and not self.exponential:
            return seconds
        group, row = divmod(worker, _WORKERS)
        block, at = divmod(round_number, _ROUNDS)
        known = self._drawn.get((group, block))
        if known is None:
            known = self._drawn[group, block] = self._multiples(group, block)
        return seconds * known[row][at]

    def _multiples(self, group: int, block: int) -> list[list[float]]:
        """What rounds draw, by worker and round of a block."""
        first = group * _WORKERS
        workers = np.arange(first, min(first + _WORKERS, len(self.factors)))
        rounds = np.arange(block * _ROUNDS, (block + 1) * _ROUNDS)
        who, when = np.repeat(workers, _ROUNDS), np.tile(rounds, len(workers))
        out = np.ones(len(who))
        if self.exponential:
            out *= -np.log1p(-self.draws.uniforms("seconds of a round", who, when, 1)[:, 0])
        if self.jitter:
            normal = self.draws.normals("jitter of a round", who, when, 1)[:, 0]
            out *= np.exp(self.jitter * normal - 0.5 * self.jitter * self.jitter)
        rows: list[list[float]] = out.reshape(len(workers), _ROUNDS).tolist()
        return rows


def lognormal_factors(workers: int, sigma: float, draws: Draws, samples: Floats | None = None) -> Floats:
    """Seconds of workers over the typical (median) one's, drawn once a worker, shape (workers,).

    Args:
        workers: How many.
        sigma: Standard deviation of the logarithm.
        draws: Random numbers of the run.
        samples: Samples of each worker, where slow workers are those with most data, shape (workers,): the drawn
            factors are handed out in the order of samples, ties by number of the worker.
    """
    drawn = np.exp(sigma * draws.normals("speed of a worker", np.arange(workers), 0, 1)[:, 0])
    if samples is None:
        return np.asarray(drawn)
    out = np.empty(workers)
    out[np.argsort(samples, kind="stable")] = np.sort(drawn)
    return out
