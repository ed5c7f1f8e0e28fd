"""Point to point: one message from a rank to another, in the domain or across it."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, register
from windtunnel.network.groups import GroupPlacement


@register
class SendRecv:
    """One message; the two ranks are in one domain when the placement has one domain."""

    id = "send_recv"
    ops = frozenset({"send_recv"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """S on the scale-up link, or S through the NIC."""
        _, _, k, s = in_place(place, nbytes)
        outside = k > 1
        return Traffic(
            up_bytes=np.where(outside, 0.0, s),
            out_bytes=np.where(outside, s, 0.0),
            up_hops=np.where(outside, 0.0, 1.0),
            out_hops=np.where(outside, 1.0, 0.0),
            hbm_bytes=2.0 * s,
        )
