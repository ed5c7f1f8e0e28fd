"""How trajectories branch: which go on after a step, and as how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.registry import Registry
from windtunnel.specs.trajectories import Trajectories


@dataclass(frozen=True, slots=True)
class Frontier:
    """Steps that have just ended without an answer."""

    score: Floats
    """(N,) of a reward model, from 0 to 1."""
    path: Ints
    """(N, depth) the steps before each, from the first on: numbers that differ where steps do."""
    meaning: Ints
    """(N,) numbers that agree where two steps say the same."""


class Method(Protocol):
    """One file of this package, found by its registry."""

    title: ClassVar[str]
    source: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]
    """Fields of `Trajectories` that it reads next to those that all read."""

    def children(self, at: Frontier, width: int, search: Trajectories) -> Ints:
        """(N,) as how many trajectories each step goes on.

        Args:
            at: steps that have ended.
            width: trajectories in all, without those that reached an answer.
            search: settings.
        """
        ...


METHODS: Registry[Method] = Registry(
    "search methods", package="windtunnel.serving.traffic.trajectories.methods", noun="search method"
)


def divided(score: Floats, width: int, temperature: float) -> Ints:
    """A width over steps by the softmax of their scores: the best first, each rounded up, until it is spent.

    Source: github SqueezeAILab/ETS, rebase.py, `select_softmax` (Wu et al. 2024, REBASE).
    """
    order = np.argsort(-score, kind="stable")
    weight = np.exp((score[order] - score.max()) / temperature)
    rest = weight[::-1].cumsum()[::-1]
    out = np.zeros(len(score), np.int64)
    for place, one, left in zip(order.tolist(), weight.tolist(), rest.tolist(), strict=True):
        if width <= 0:
            break
        out[place] = min(int(np.ceil(width * one / left - 1e-9)), width)
        width -= int(out[place])
    return out
