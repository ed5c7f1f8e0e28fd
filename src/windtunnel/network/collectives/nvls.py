"""NVLS: the switch of the scale-up network reduces and multicasts.

An all-reduce reads each address once through the switch (every GPU sends its S, the reducing GPU of a slice receives
one reduced copy) and writes it once as a multicast: a port carries S·(n + 1)/n each way instead of the ring's 2·S·(n −
1)/n. The GPU-count sweeps of H200 (5 to 8) and B200 (6 to 8) divide to one rate within 2 % under this count and under
no other tried.

Source: NVIDIA NVLink SHARP in NVSwitch 3; traffic counted from the multimem ld_reduce/st instructions (PTX ISA 8.1).
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, log2_ceil, register
from windtunnel.network.groups import GroupPlacement


@register
class Nvls:
    """In-switch reduction inside one domain; across domains a ring among equal ranks (rails) joins the slices."""

    id = "nvls"
    ops = frozenset({"all_reduce", "reduce_scatter", "all_gather"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Busiest direction of a port.

        all_reduce S(m + 1)/m; reduce_scatter S(m − 1)/m sent; all_gather S(m − 1)/m received.
        """
        _, m, k, s = in_place(place, nbytes)
        if op == "all_reduce":
            up, passes = s * (m + 1.0) / m, 2.0
        else:
            up, passes = s * (m - 1.0) / m, 1.0
        out = np.where(k > 1, passes * s / m * (k - 1.0) / k, 0.0)
        one = np.where(m > 1, 1.0, 0.0)
        hbm = np.where(op == "all_reduce", 2.0, 1.0) * s + s / m
        return Traffic(
            up_bytes=np.where(m > 1, up, 0.0),
            out_bytes=out,
            up_hops=one,
            out_hops=passes * (k - 1.0),
            hbm_bytes=hbm,
            in_network=True,
        )


@register
class NvlsTree:
    """NVLS inside each domain, a double binary tree between domains (NCCL "NVLSTree")."""

    id = "nvls_tree"
    ops = frozenset({"all_reduce"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Inside as NVLS; each rank moves its slice S/m up and down the tree of its rail."""
        _, m, k, s = in_place(place, nbytes)
        out = np.where(k > 1, 2.0 * s / m * (k - 1.0) / k, 0.0)
        up = np.where(m > 1, s * (m + 1.0) / m, 0.0)
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=np.where(m > 1, 1.0, 0.0),
            out_hops=2.0 * log2_ceil(k),
            hbm_bytes=2.0 * s + s / m,
            in_network=True,
        )
