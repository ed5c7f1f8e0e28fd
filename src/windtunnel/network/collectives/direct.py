"""Direct: every rank exchanges with every other at once, for small messages or fully connected links.

Source: Jiang et al., A Unified Architecture for Accelerating Distributed DNN Training (direct
reduce-scatter/all-gather); the same exchange is the "two-shot" custom all-reduce of inference engines.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, reduces, register
from windtunnel.network.groups import GroupPlacement


@register
class Direct:
    """All pairs at once: same bytes as a ring, one hop per phase."""

    id = "direct"
    ops = frozenset({"all_reduce", "reduce_scatter", "all_gather"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """A rank sends S/n to each of the n − m ranks outside its domain and the m − 1 inside, once per phase."""
        n, m, k, s = in_place(place, nbytes)
        passes = reduces(op)
        up = passes * s * (m - 1.0) / n
        out = np.where(k > 1, passes * s * (n - m) / n, 0.0)
        hops = np.where(n > 1, passes, 0.0)
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=np.where(k > 1, 0.0, hops),
            out_hops=np.where(k > 1, hops, 0.0),
            hbm_bytes=2.0 * (up + out) + s / n,
        )


@register
class OneShot:
    """One-shot all-reduce: every rank reads every other's whole tensor and reduces locally. Least latency."""

    id = "one_shot"
    ops = frozenset({"all_reduce"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """A rank sends S to n − 1 others in one step."""
        n, m, k, s = in_place(place, nbytes)
        up = s * (m - 1.0)
        out = np.where(k > 1, s * (n - m), 0.0)
        hop = (n > 1).astype(np.float64)
        return Traffic(
            up_bytes=up,
            out_bytes=out,
            up_hops=np.where(k > 1, 0.0, hop),
            out_hops=np.where(k > 1, hop, 0.0),
            hbm_bytes=up + out + 2.0 * s,
        )
