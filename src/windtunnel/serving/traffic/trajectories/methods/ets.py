"""Efficient tree search: steps are kept for their reward and for what they say, against the cache that they hold.

The integer program maximises Σ O_i x_i − λ_b·(nodes kept)/(nodes) + λ_d·(meanings kept)/(meanings) over leaves x_i,
whose ancestors are kept with them; O_i is the share of the width that balanced search would give a leaf. The width is
then divided among the kept leaves as in balanced search.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.serving.traffic.trajectories.base import METHODS, Frontier, divided
from windtunnel.specs.trajectories import Trajectories

GAP = 1e-4
"""Of the program's value, at which its solver stops."""


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


def kept(share: Floats, path: Ints, meaning: Ints, node_cost: float, coverage: float) -> Mask:
    """(N,) which leaves the program keeps.

    Args:
        share: (N,) reward of each leaf.
        path: (N, depth) ancestors, the root excepted; numbers do not repeat between depths.
        meaning: (N,) equal where two leaves say the same.
        node_cost: λ_b.
        coverage: λ_d.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    count, depth = path.shape
    inner, which = np.unique(path, return_inverse=True)
    which = which.reshape(path.shape) + count
    said, means = np.unique(meaning, return_inverse=True)
    root, first_said = count + len(inner), count + len(inner) + 1
    cost = node_cost / first_said
    gain = np.concatenate([share - cost, np.full(len(inner) + 1, -cost), np.full(len(said), coverage / len(said))])
    # Rows: a node's parent is kept with it; a meaning is kept with one of its leaves; some leaf is kept.
    chain = np.column_stack([np.full(count, root), which, np.arange(count)])
    below = np.unique(np.concatenate([chain[:, d : d + 2] for d in range(depth + 1)]), axis=0)
    links, last = len(below), len(below) + len(said)
    rows = np.concatenate(
        [np.arange(links), np.arange(links), links + means, links + np.arange(len(said)), np.full(count, last)]
    )
    columns = np.concatenate(
        [below[:, 0], below[:, 1], np.arange(count), first_said + np.arange(len(said)), np.arange(count)]
    )
    signs = np.repeat([1.0, -1.0, 1.0, -1.0, 1.0], [links, links, count, len(said), count])
    lowest = np.zeros(last + 1)
    lowest[last] = 1.0
    whole = np.zeros(len(gain))
    whole[:count] = 1  # the others are whole when leaves are
    found = milp(
        -gain,
        integrality=whole,
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": GAP},
        constraints=LinearConstraint(csr_array((signs, (rows, columns))), lowest, np.inf),
    )
    chosen: Mask = found.x[:count] > 0.5
    return chosen


METHODS.add("ets", Ets())
