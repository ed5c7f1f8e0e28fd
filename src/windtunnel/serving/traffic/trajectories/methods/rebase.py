"""Reward-balanced search: the width is divided by the softmax of scores."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.arrays import Ints
from windtunnel.serving.traffic.trajectories.base import METHODS, Frontier, divided
from windtunnel.specs.trajectories import Trajectories


class Rebase:
    """Good steps branch more; the worst are dropped when the width is spent."""

    title: ClassVar[str] = "reward-balanced search"
    source: ClassVar[str] = "Wu et al. 2024 (arXiv 2408.00724); github SqueezeAILab/ETS, rebase.py, select_softmax"
    reads: ClassVar[tuple[str, ...]] = ("temperature",)

    def children(self, at: Frontier, width: int, search: Trajectories) -> Ints:
        """By the softmax."""
        return divided(at.score, width, search.temperature)


METHODS.add("rebase", Rebase())
