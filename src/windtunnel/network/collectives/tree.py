"""Double binary tree between domains, a chain inside each.

Two trees carry half of the data each; a rank that is a leaf in one is an inner node in the other, so every rank sends
and receives each byte at most twice and all links are used.

Source: Sanders, Speck & Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
Computing 2009; NCCL 2.4 (Jeaugey, Massively Scale Your Deep Learning Training with NCCL 2.4, 2019).
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, log2_ceil, register
from windtunnel.network.groups import GroupPlacement


@register
class Tree:
    """Double binary tree over domains with an intra-domain chain (NCCL "Tree")."""

    id = "tree"
    ops = frozenset({"all_reduce"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Reduce up, broadcast down, both at once on different chunks.

        A domain that is inner in one tree sends S/2 to its parent and S/2 to each of two children there, and S/2 to its
        parent in the tree where it is a leaf: 2·S. With two domains it is S, with three 1.5·S. Inside, every channel is
        a chain from another device, so a rank sends S·(m − 1)/m up and as much down.
        """
        n, m, k, s = in_place(place, nbytes)
        egress = s * np.where(k >= 4, 2.0, np.where(k >= 3, 1.5, np.where(k >= 2, 1.0, 0.0)))
        inside = 2.0 * s * (m - 1.0) / m
        hbm = 6.0 * s * (n - 1.0) / n + s / n
        return Traffic(
            up_bytes=inside, out_bytes=egress / m, up_hops=2.0 * (m - 1.0), out_hops=2.0 * log2_ceil(k), hbm_bytes=hbm
        )
