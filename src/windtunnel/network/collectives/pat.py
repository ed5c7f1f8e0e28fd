"""PAT: parallel aggregated trees for all-gather and reduce-scatter with one rank per domain.

Binomial trees, one per rank, whose messages are aggregated as far as buffers allow: logarithmic in network hops, with a
small linear part on the device.

Source: Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale, arXiv:2506.20252 (2025).
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, log2_ceil, register
from windtunnel.network.groups import GroupPlacement


@register
class Pat:
    """It moves as many bytes as a ring in ⌈log2 n⌉ network hops."""

    id = "pat"
    ops = frozenset({"reduce_scatter", "all_gather"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """S·(n − 1)/n leaves each rank (through the NIC; NCCL uses it with one rank per node only)."""
        n, m, k, s = in_place(place, nbytes)
        out = np.where(k > 1, s * (n - m) / n, 0.0)
        up = s * (m - 1.0) / n
        return Traffic(
            up_bytes=up, out_bytes=out, up_hops=log2_ceil(m), out_hops=log2_ceil(k), hbm_bytes=3.0 * (up + out) + s / n
        )
