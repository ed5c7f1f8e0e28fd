"""Star: one rank (a parameter server, a coordinator over a WAN) receives from all and sends to all."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, register
from windtunnel.network.groups import GroupPlacement


@register
class Star:
    """The centre's port carries (n − 1)·S in each direction; in and out are full duplex but follow one another."""

    id = "star"
    ops = frozenset({"all_reduce", "reduce_scatter", "all_gather", "broadcast"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """all_reduce 2(n − 1)S at the centre, broadcast (n − 1)S; slices for all_gather and reduce_scatter."""
        n, m, k, s = in_place(place, nbytes)
        gather, scatter = {
            "all_reduce": (s, s),
            "broadcast": (0.0 * s, s),
            "all_gather": (s / n, s),
            "reduce_scatter": (s, s / n),
        }[op]
        each = gather + scatter
        up = each * (m - 1.0)
        out = np.where(k > 1, each * (n - m), 0.0)
        hops = np.where(n > 1, 2.0 if op != "broadcast" else 1.0, 0.0)
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=np.where(k > 1, 0.0, hops),
            out_hops=np.where(k > 1, hops, 0.0),
            hbm_bytes=2.0 * each * (n - 1.0),
            pipelined=False,
        )
