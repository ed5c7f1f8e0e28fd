"""Efficient tree search: steps are kept for their reward and for what they say, against the cache that they hold.

The integer program maximises Σ O_i x_i − λ_b·(nodes kept)/(nodes) + λ_d·(meanings kept)/(meanings) over leaves x_i,
whose ancestors are kept with them; O_i is the share of the width that balanced search would give a leaf. Meanings are
here those of continuations of one step, so that a tree's best choice is that of its branches: each is decided after
those below it, which is exact. The width is then divided among the kept leaves as in balanced search.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from windtunnel.serving.traffic.trajectories.base import METHODS, Floats, Frontier, Ints, divided
from windtunnel.specs.trajectories import Trajectories


class Ets:
    """Balanced search over what the program keeps."""

    title: ClassVar[str] = "efficient tree search"
    source: ClassVar[str] = "Hooper et al. 2025 (arXiv 2502.13575); github SqueezeAILab/ETS, select_softmax_costmodel"
    reads: ClassVar[tuple[str, ...]] = ("temperature", "node_cost", "coverage", "meanings")

    def children(self, at: Frontier, width: int, search: Trajectories) -> Ints:
        """By the softmax of the leaves that stay."""
        share = divided(at.score, width, search.temperature) / width
        stay = np.flatnonzero(kept(share, at.path, at.meaning, search.node_cost, search.coverage))
        out = np.zeros(len(share), np.int64)
        out[stay] = divided(at.score[stay], width, search.temperature)
        return out


def kept(share: Floats, path: Ints, meaning: Ints, node_cost: float, coverage: float) -> np.ndarray:
    """(N,) which leaves the program keeps.

    Args:
        share: (N,) reward of each leaf.
        path: (N, depth) ancestors, the root excepted.
        meaning: (N,) equal where two leaves below one parent say the same.
        node_cost: λ_b.
        coverage: λ_d.
    """
    count, depth = path.shape
    nodes = count + 1 + sum(len(np.unique(path[:, d])) for d in range(depth))
    cost = node_cost / nodes
    gain, chosen = _of_meanings(share - cost, meaning, coverage)
    key = meaning
    for d in range(depth - 1, -2, -1):
        own = path[:, d] if d >= 0 else np.zeros(count, np.int64)
        parts, first = np.unique(key, return_index=True)
        above = own[first]
        best: dict[int, float] = {}
        keep = np.zeros(len(parts), np.bool_)
        for u in np.unique(above).tolist():
            under = np.flatnonzero(above == u)
            values = gain[first[under]]
            take = values > 0
            if not take.any():
                take[int(values.argmax())] = True
            keep[under[take]] = True
            best[u] = float(values[take].sum()) - (cost if d >= 0 else 0.0)
        chosen &= keep[np.searchsorted(parts, key)]
        key, gain = own, np.array([best[u] for u in own.tolist()])
    return chosen


def _of_meanings(value: Floats, meaning: Ints, coverage: float) -> tuple[Floats, np.ndarray]:
    """(N,) what each leaf's meaning is worth, and which leaves it would keep: those that pay, or the best one."""
    names, at = np.unique(meaning, return_inverse=True)
    bonus = coverage / len(names)
    gain, chosen = np.zeros(len(names)), np.zeros(len(value), np.bool_)
    for k in range(len(names)):
        mine = np.flatnonzero(at == k)
        take = value[mine] > 0
        if not take.any():
            take[int(value[mine].argmax())] = True
        chosen[mine[take]] = True
        gain[k] = value[mine[take]].sum() + bonus
    return gain[at], chosen


METHODS.add("ets", Ets())
