"""Ring: n ranks in a circle, each passes 1/n of the tensor on per step.

Source: Patarasu & Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009. NCCL builds
one ring per channel and lets every channel leave the node through another NIC, so per rank a share 1/m of the traffic
goes out and the rest stays on the scale-up network.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, reduces, register
from windtunnel.network.groups import GroupPlacement


@register
class Ring:
    """Flat ring over all ranks, neighbours of a domain next to one another."""

    id = "ring"
    ops = frozenset({"all_reduce", "reduce_scatter", "all_gather", "broadcast"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Each rank sends passes·S·(n−1)/n, of which 1/m through the NIC when the ring spans domains.

        A broadcast sends S once along the chain.
        """
        n, m, k, s = in_place(place, nbytes)
        if op == "broadcast":
            sent, steps, crossings = s, n - 1.0, k - 1.0
        else:
            passes = reduces(op)
            sent = passes * s * (n - 1.0) / n
            steps, crossings = passes * (n - 1.0), passes * (k - 1.0)
        leaves = np.where(k > 1, 1.0 / m, 0.0)
        hbm = 3.0 * sent + s / n
        return Traffic(
            up_bytes=sent * (1.0 - leaves),
            out_bytes=sent * leaves,
            up_hops=steps - crossings,
            out_hops=crossings,
            hbm_bytes=hbm,
        )
