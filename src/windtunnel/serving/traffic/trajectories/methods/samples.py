"""Independent answers: best of n, self-consistency, majority votes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.serving.traffic.trajectories.base import METHODS, Frontier
from windtunnel.specs.trajectories import Trajectories


class Samples:
    """Nothing is dropped, nothing branches."""

    title: ClassVar[str] = "independent samples"
    source: ClassVar[str] = "Brown et al. 2024 (arXiv 2407.21787), repeated sampling"
    reads: ClassVar[tuple[str, ...]] = ()

    def children(self, at: Frontier, width: int, search: Trajectories) -> Ints:
        """One each."""
        return np.ones(len(at.score), np.int64)


METHODS.add("samples", Samples())
