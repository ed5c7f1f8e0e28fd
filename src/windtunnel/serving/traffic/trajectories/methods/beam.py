"""Beam search over steps: the best few go on, each as equally many."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.serving.traffic.trajectories.base import METHODS, Frontier
from windtunnel.specs.trajectories import Trajectories


class Beam:
    """`keep` steps; without it the square root of the width."""

    title: ClassVar[str] = "beam search"
    source: ClassVar[str] = "github SqueezeAILab/ETS, rebase.py, select_beam_search"
    reads: ClassVar[tuple[str, ...]] = ("keep",)

    def children(self, at: Frontier, width: int, search: Trajectories) -> Ints:
        """The same number for each of those that stay."""
        keep = min(search.keep or math.ceil(math.sqrt(width)), len(at.score))
        out = np.zeros(len(at.score), np.int64)
        out[np.argsort(-at.score, kind="stable")[:keep]] = math.ceil(width / keep)
        return out


METHODS.add("beam", Beam())
