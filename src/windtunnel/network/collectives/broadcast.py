"""Broadcast by a binomial tree: log2 n rounds in which every rank that has the tensor sends it on (small tensors).

NCCL broadcasts along the ring (`ring`); large tensors there are pipelined in chunks.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, log2_ceil, register
from windtunnel.network.groups import GroupPlacement


@register
class BinomialBroadcast:
    """Unpipelined binomial tree; the root sends S once per round, across domains first."""

    id = "binomial"
    ops = frozenset({"broadcast"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """⌈log2 k⌉ rounds between domains, then ⌈log2 m⌉ inside."""
        _, m, k, s = in_place(place, nbytes)
        outside, inside = log2_ceil(k), log2_ceil(m)
        # One rank of each domain sends; its share of the group's NICs is 1/m of what the group has.
        return Traffic(
            up_bytes=s * inside,
            out_bytes=np.where(k > 1, s * outside / m, 0.0),
            up_hops=inside,
            out_hops=outside,
            hbm_bytes=2.0 * s,
            pipelined=False,
        )
