"""Recursive halving and doubling: log2 n exchanges with partners at distance n/2, n/4, ….

Source: Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005. For n
that is not a power of two the r = n − 2^⌊log2 n⌋ extra ranks first fold their data into a partner and get the result
back.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, reduces, register
from windtunnel.network.groups import GroupPlacement


@register
class HalvingDoubling:
    """Recursive halving (reduce-scatter) and doubling (all-gather); an all-reduce is one after the other."""

    id = "halving_doubling"
    ops = frozenset({"all_reduce", "reduce_scatter", "all_gather"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """The large exchanges are made with near partners: distance 1, 2, … first carries S/2, S/4, ….

        Steps inside the domain move S·(1 − 1/m); those between domains S/m·(1 − 1/k), all ranks at once.
        """
        n, m, k, s = in_place(place, nbytes)
        passes = reduces(op)
        power = np.exp2(np.floor(np.log2(np.maximum(n, 1.0)) + 1e-12))
        extra = (n - power > 0).astype(np.float64)
        inside = np.minimum(m, power)
        across = power / inside
        up = passes * s * (1.0 - 1.0 / inside) + extra * s
        out = passes * s / inside * (1.0 - 1.0 / across)
        up_hops = passes * np.log2(inside) + extra * 2.0
        out_hops = passes * np.log2(across)
        return Traffic(
            up_bytes=up,
            out_bytes=np.where(k > 1, out, 0.0),
            up_hops=up_hops,
            out_hops=out_hops,
            hbm_bytes=3.0 * (up + out) + s / n,
            pipelined=False,
        )
