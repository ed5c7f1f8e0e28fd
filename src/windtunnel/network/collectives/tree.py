"""Double binary tree between domains, a chain inside each.

Two trees carry half of the data each; a rank that is a leaf in one is an inner node in the other, so every rank sends
and receives each byte at most twice and all links are used.

Source: Sanders, Speck & Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
Computing 2009; NCCL 2.4 (Jeaugey, Massively Scale Your Deep Learning Training with NCCL 2.4, 2019).
"""

from __future__ import annotations

import numpy as np

from windtunnel.network.collectives.base import Floats, Traffic, in_place, log2_ceil, reduces, register
from windtunnel.network.groups import GroupPlacement


@register
class Tree:
    """Double binary tree over domains with an intra-domain chain (NCCL "Tree")."""

    id = "tree"
    ops = frozenset({"all_reduce", "broadcast"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Up and down: a rank sends S up and S down (all_reduce), or S down (broadcast).

        Between domains a node of a double tree forwards S/2 to its parent in the tree where it is inner, S/2 where it
        is a leaf, and the same down to two children: S up, S down per domain in total. Two domains exchange S/2 each
        way twice.
        """
        n, m, k, s = in_place(place, nbytes)
        passes = reduces(op)
        egress = np.where(k > 1, passes * s * (k - 1.0) / k, 0.0)
        # The chain in the domain moves S up and S down across every inner link; its ends send once only.
        inside = np.where(m > 1, passes * s, 0.0)
        up_hops = passes * (m - 1.0)
        out_hops = passes * log2_ceil(k)
        hbm = 3.0 * passes * s * (n - 1.0) / n + s / n
        return Traffic(inside, egress / m, up_hops, out_hops, hbm)
