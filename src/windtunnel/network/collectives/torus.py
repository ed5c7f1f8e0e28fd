"""Torus (TPU ICI): bidirectional rings along each torus axis, all axes of the group at once.

A group that covers j of the J axes uses j of the J pairs of links of a chip; the tensor is cut in j parts that go
round the axes in different orders, so all of those links are busy all the time.

An axis that the group covers as an open line, or that has two chips, counts half: 2x2x1 of TPU7x then gathers at
0.9 · 200 GB/s, 178.8 measured (tpu-recipes, Ironwood all_gather).

Source: Jouppi et al., TPU v4, ISCA 2023; scaling-book (jax-ml), chapter "rooflines/sharding": an all-gather of S bytes
takes max(S/W_ici, hops·1 µs), whatever the size of the group.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, reduces, register
from windtunnel.network.groups import GroupPlacement


@register
class Torus:
    """Bidirectional multi-axis ring; the rate that divides `up_bytes` is that of the axes in use."""

    id = "torus"
    ops = frozenset({"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send_recv"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """Ring bytes passes·S(n − 1)/n over both directions of the used axes; all_to_all by bisection."""
        n, _, k, s = in_place(place, nbytes)
        hops = np.maximum(place.torus_hops, np.where(n > 1, 1.0, 0.0))
        out = np.where(k > 1, s / np.maximum(place.ranks_per_domain, 1.0), 0.0)
        if op == "all_to_all":
            # A byte travels L/4 links on each axis of length L, and all links of the axes share the load.
            axes = np.maximum(np.ceil(place.torus_axes), 1.0)
            side = n ** (1.0 / axes)
            sent = np.where(n > 1, s * np.maximum(side / 4.0, 0.5) * axes, 0.0)
        elif op == "send_recv":
            sent = s * 2.0 * place.torus_axes  # one link of the pairs that the rate counts
        elif op == "broadcast":
            sent = s
        else:
            sent = reduces(op) * s * (n - 1.0) / n
            hops = reduces(op) * hops
            out = out * reduces(op) * (k - 1.0) / k
        return Traffic(
            up_bytes=sent,
            out_bytes=out,
            up_hops=hops,
            out_hops=np.where(k > 1, reduces(op) * (k - 1.0), 0.0),
            hbm_bytes=2.0 * sent,
        )
