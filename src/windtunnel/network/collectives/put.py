"""Collectives made of one-sided puts and signals that device threads issue: no library kernel, no rendezvous, no proxy.

A kernel stores straight into its peers' memory (or posts the write at the NIC itself) and signals; a reader waits on
the flag, or finds it in the data (LL). What such a collective costs is its own kernel, a hop for each dependent put,
posting to each further node, and its bytes: nothing is cut into chunks that pass through buffers. Which composition is
best depends on size and ranks.

Source: Shah et al., MSCCL++: Rethinking GPU Communication Abstractions, arXiv 2504.09014, sections 3 to 5.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, reduces, register
from windtunnel.network.collectives.direct import Direct, OneShot
from windtunnel.network.groups import GroupPlacement


@register
class PutOneShot(OneShot):
    """All ranks put their whole tensor to all others: one hop, n − 1 times the bytes."""

    id = "put_one_shot"


@register
class PutTwoShot(Direct):
    """All pairs twice: slices to who reduces them, sums to everybody."""

    id = "put_two_shot"


@register
class PutSwitch:
    """The switch adds and multicasts (multimem instructions), between two signals among all ranks of a domain."""

    id = "put_switch"
    ops = frozenset({"all_reduce"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """A port carries S(m + 1)/m, as under NVLS; several domains exchange slices pairwise in between."""
        _, m, k, s = in_place(place, nbytes)
        up = np.where(m > 1, s * (m + 1.0) / m, 0.0)
        out = np.where(k > 1, s / m * (k - 1.0), 0.0)
        hops = np.where(m > 1, 2.0, 0.0)
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=hops,
            out_hops=np.where(k > 1, 1.0, 0.0),
            hbm_bytes=2.0 * s + s / m + 2.0 * out,
            pipelined=False,
            in_network=True,
        )


@register
class PutHierarchical:
    """All pairs inside the domain, slices to all equal ranks of other domains, all pairs inside again."""

    id = "put_hierarchical"
    ops = frozenset({"all_reduce", "all_gather", "reduce_scatter"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Inside passes·S(m − 1)/m in a hop each; across one hop: S(k − 1)/m for a sum, (S/m)(k − 1)/k else."""
        _, m, k, s = in_place(place, nbytes)
        passes = reduces(op)
        up = passes * s * (m - 1.0) / m
        share = 1.0 if op == "all_reduce" else 1.0 / k
        out = np.where(k > 1, s / m * (k - 1.0) * share, 0.0)
        up_hops, out_hops = np.where(m > 1, passes, 0.0), np.where(k > 1, 1.0, 0.0)
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=up_hops,
            out_hops=out_hops,
            hbm_bytes=2.0 * (up + out) + s / m,
            pipelined=False,
        )
