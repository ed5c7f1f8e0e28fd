"""Hierarchical all-reduce with recursive doubling between nodes, by puts that device threads issue.

Inside a domain a reduce-scatter leaves each rank a slice; equal ranks of all domains exchange whole slices with
partners at distance 1, 2, 4, … and add; an all-gather inside ends it. Where the number of domains is no power of two,
the rest folds into a partner first and gets the sum back at the end.

Source: Singhania et al., LLM Inference Beyond a Single Node, arXiv 2511.09557: recursive doubling over NVSHMEM for
messages of 128 KB to 2 MB.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, register
from windtunnel.network.groups import GroupPlacement


@register
class Nvrar:
    """log2 k exchanges of slices between the reduce-scatter and the all-gather inside."""

    id = "nvrar"
    ops = frozenset({"all_reduce"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Scale-up 2·S(m − 1)/m in two hops; NIC log2 k · S/m in as many."""
        _, m, k, s = in_place(place, nbytes)
        steps = np.floor(np.log2(np.maximum(k, 1.0)) + 1e-12)
        steps = steps + np.where(np.exp2(steps) < k, 2.0, 0.0)
        up, out = 2.0 * s * (m - 1.0) / m, steps * s / m
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=np.where(m > 1, 2.0, 0.0),
            out_hops=steps,
            hbm_bytes=2.0 * (up + out) + s / m,
            pipelined=False,
        )
