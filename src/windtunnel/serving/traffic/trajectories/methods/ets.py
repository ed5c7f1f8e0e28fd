"""Efficient tree search: steps are kept for their reward and for what they say, against the cache that they hold.

The integer program maximises Σ O_i x_i − λ_b·(nodes kept)/(nodes) + λ_d·(meanings kept)/(meanings) over leaves x_i,
whose ancestors are kept with them; O_i is the share of the width that balanced search would give a leaf. The width is
then divided among the kept leaves as in balanced search.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.serving.traffic.trajectories.base import METHODS, Frontier, divided
from windtunnel.specs.trajectories import Trajectories

GAP = 1e-4
"""Relative gap to the best value of the integer program at which its solver stops."""


class Ets:
    """Balanced search over what the program keeps."""

    title: ClassVar[str] = "efficient tree search"
    source: ClassVar[str] = "Hooper et al. 2025 (arXiv 2502.13575); github SqueezeAILab/ETS, select_softmax_costmodel"
    reads: ClassVar[tuple[str, ...]] = ("temperature", "node_cost", "coverage", "meanings")

    def children(self, at: Frontier, width: int, search: Trajectories) -> Ints:
        """By the softmax of the leaves that stay."""
        share = divided(at.score, width, search.temperature) / width
        stay = np.flatnonzero(kept_leaves(share, at.path, at.meaning, search.node_cost, search.coverage))
        out = np.zeros(len(share), np.int64)
        out[stay] = divided(at.score[stay], width, search.temperature)
        return out


def kept_leaves(share: Floats, path: Ints, meaning: Ints, node_cost: float, coverage: float) -> Mask:
    """Solve the program for the leaves that it keeps.

    Args:
        share: (N,) reward of each leaf.
        path: (N, depth) ancestors, the root excepted; numbers do not repeat between depths.
        meaning: (N,) equal where two leaves say the same.
        node_cost: λ_b.
        coverage: λ_d.

    Returns:
        (N,) whether a leaf is kept.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    count = len(path)
    inner, which = np.unique(path, return_inverse=True)
    said, means = np.unique(meaning, return_inverse=True)
    cost = node_cost / (count + len(inner) + 1)
    gain = np.concatenate([share - cost, np.full(len(inner) + 1, -cost), np.full(len(said), coverage / len(said))])
    whole = np.zeros(len(gain))
    whole[:count] = 1  # the others are whole when leaves are
    constraints = _constraints(which.reshape(path.shape) + count, count + len(inner), means, len(said))
    lowest = np.zeros(constraints.shape[0])
    lowest[-1] = 1.0
    found = milp(
        -gain,
        integrality=whole,
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": GAP},
        constraints=LinearConstraint(constraints, lowest, np.inf),
    )
    chosen: Mask = found.x[:count] > 0.5
    return chosen


def _constraints(ancestors: Ints, root: int, means: Ints, meanings: int) -> Any:
    """Build the program's rows: a node's parent is kept with it, a meaning with one of its leaves, and some leaf is.

    Args:
        ancestors: (N, depth) column of each leaf's ancestors, the root excepted; leaves are the columns 0 to N − 1.
        root: column of the root; columns of meanings follow it.
        means: (N,) number of each leaf's meaning.
        meanings: how many meanings there are.
    """
    from scipy.sparse import csr_array

    count, depth = ancestors.shape
    chain = np.column_stack([np.full(count, root), ancestors, np.arange(count)])
    below = np.unique(np.concatenate([chain[:, d : d + 2] for d in range(depth + 1)]), axis=0)
    links, last = len(below), len(below) + meanings
    rows = np.concatenate(
        [np.arange(links), np.arange(links), links + means, links + np.arange(meanings), np.full(count, last)]
    )
    columns = np.concatenate(
        [below[:, 0], below[:, 1], np.arange(count), root + 1 + np.arange(meanings), np.arange(count)]
    )
    signs = np.repeat([1.0, -1.0, 1.0, -1.0, 1.0], [links, links, count, meanings, count])
    return csr_array((signs, (rows, columns)))


METHODS.add("ets", Ets())
