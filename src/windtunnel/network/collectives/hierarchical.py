"""Hierarchical: reduce-scatter inside the domain, all-reduce of slices between domains, all-gather inside.

The three phases follow one another (`pipelined` false); NCCL's rings overlap them instead. All-gather and
reduce-scatter have two phases.

Source: Cho et al., BlueConnect, MLSys 2019; also "hierarchical all-reduce" of DeepSpeed/Horovod.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, reduces, register
from windtunnel.network.groups import GroupPlacement


@register
class Hierarchical:
    """Ring inside, ring on slices across."""

    id = "hierarchical"
    ops = frozenset({"all_reduce", "reduce_scatter", "all_gather"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Scale-up passes·S(m − 1)/m, NIC passes·(S/m)(k − 1)/k per rank."""
        _, m, k, s = in_place(place, nbytes)
        passes = reduces(op)
        up = passes * s * (m - 1.0) / m
        out = np.where(k > 1, passes * s / m * (k - 1.0) / k, 0.0)
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=passes * (m - 1.0),
            out_hops=passes * (k - 1.0),
            hbm_bytes=3.0 * (up + out) + s / m,
            pipelined=False,
        )
