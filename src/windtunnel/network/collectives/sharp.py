"""CollNet / SHARP: the switches between the domains reduce.

Source: Graham et al., Scalable Hierarchical Aggregation Protocol (SHARP), COM-HPC 2016: a NIC sends S once and
receives the reduced S once, at a depth of log(radix) instead of rounds over ranks.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, register
from windtunnel.network.groups import GroupPlacement


@register
class CollnetDirect:
    """Reduce-scatter inside the domain, aggregation in the fabric on slices S/m, all-gather inside."""

    id = "collnet_direct"
    ops = frozenset({"all_reduce"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Scale-up 2·S(m − 1)/m, NIC S/m each way."""
        _, m, k, s = in_place(place, nbytes)
        up = 2.0 * s * (m - 1.0) / m
        out = np.where(k > 1, s / m, 0.0)
        hops = np.where(k > 1, 1.0, 0.0)
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=2.0 * np.minimum(m - 1.0, 1.0),
            out_hops=hops,
            hbm_bytes=3.0 * up + 2.0 * s,
        )


@register
class CollnetChain:
    """A chain inside the domain ends at the NIC, the fabric reduces, the chain carries the result back."""

    id = "collnet_chain"
    ops = frozenset({"all_reduce"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Scale-up 2·S along the chain, NIC S/m each way."""
        _, m, k, s = in_place(place, nbytes)
        up = np.where(m > 1, 2.0 * s, 0.0)
        out = np.where(k > 1, s / m, 0.0)
        hops = np.where(k > 1, 1.0, 0.0)
        return Traffic(up_bytes=up, out_bytes=out, up_hops=2.0 * (m - 1.0), out_hops=hops, hbm_bytes=3.0 * up + 2.0 * s)
