"""A uniform sample of the workers, of which more may be asked than are waited for (over-selection).

Source: McMahan et al. 2017, algorithm 1 (a random set of clients each round); Bonawitz et al. 2019 (arXiv 1902.01046),
section 2.2 (130 % of the wanted clients are selected, so that those who drop out are made up for).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws

_TRIES = 16
_BLOCK = 512
"""Choices of one worker that are drawn at once."""


@lru_cache(maxsize=64)
def _tries(draws: Draws, block: int, workers: int) -> list[list[int]]:
    """Workers that are tried in turn for each choice of a block."""
    choices = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
    tries: list[list[int]] = draws.integers("participant", 0, choices, _TRIES, below=workers).tolist()
    return tries


@dataclass(frozen=True, slots=True)
class Sample:
    """`active` workers at a time, drawn without replacement by (seed, choice) from those that are idle."""

    active: int
    over: float = 0.0
    """o: active·(1 + o) are asked, rounded up; those that come late are given up."""

    def width(self, workers: int) -> int:
        """The active ones."""
        return min(self.active, workers)

    def slots(self, workers: int) -> int:
        """The active ones and those asked beyond them."""
        return min(ceil(self.active * (1.0 + self.over) - 1e-9), workers)

    def choose(self, idle: Set[int], workers: int, count: int, choice: int, draws: Draws) -> list[int]:
        """Uniformly; see `Participation.choose`. One worker is drawn by rejection, several by the order of draws."""
        if count == 1:
            block, at = divmod(choice, _BLOCK)
            for first in _tries(draws, block, workers)[at]:
                if first in idle:
                    return [first]
        who = np.array(sorted(idle), np.int64)
        if len(who) <= count:
            return [int(worker) for worker in who]
        order = np.argsort(draws.uniforms("participants", who, choice, 1)[:, 0], kind="stable")
        return sorted(who[order[:count]].tolist())

    def __call__(self, job: Job, round_number: int) -> Ints:
        """The workers of a lock-step round; the first `active` of the draw."""
        everyone = frozenset(range(job.workers))
        return np.array(self.choose(everyone, job.workers, self.width(job.workers), round_number, job.draws), np.int64)


def participation(active: int, over: float = 0.0) -> Sample | None:
    """The rule of a knob `active`, None for 0: everyone."""
    return Sample(active, over) if active else None
