"""All-to-all: every rank sends another slice to every rank; uniform, imbalanced, or de-duplicated per domain.

Pairwise: n − 1 messages per rank, all posted at once, so the latency is one hop plus the time to post them; bytes are
set by the busiest port. Imbalance is the busiest rank's load over the mean (1 = uniform). De-duplication (node-limited
dispatch of mixture-of-experts tokens): one copy of a token per destination domain crosses the NIC and is spread
inside.

Source: DeepEP (deepseek-ai, 2025) for the two-level form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.network.collectives.base import Traffic, in_place, register
from windtunnel.network.groups import GroupPlacement


@register
class AllToAll:
    """Pairwise exchange, uniform loads."""

    id = "all_to_all"
    ops = frozenset({"all_to_all"})

    def traffic(self, op: str, nbytes: Floats, place: GroupPlacement) -> Traffic:
        """S·(m − 1)/n stays inside, S·(n − m)/n leaves."""
        return all_to_all_traffic(nbytes, place)


@dataclass(frozen=True, slots=True)
class AllToAllLoad:
    """How an all-to-all departs from equal slices that every rank sends to every rank."""

    imbalance: npt.ArrayLike = 1.0
    """Busiest rank's bytes over the mean, on the receiving or the sending side, ≥ 1."""
    unique_out_fraction: npt.ArrayLike = 1.0
    """Part of the outgoing bytes that has to cross the NIC after de-duplication per domain."""
    two_level: bool = False
    """Tokens cross to the peer of the same rail first and are spread there over the scale-up links, which then carry
    all arriving bytes besides the local ones."""


EVEN = AllToAllLoad()


def all_to_all_traffic(nbytes: npt.ArrayLike, place: GroupPlacement, load: AllToAllLoad = EVEN) -> Traffic:
    """Bytes and hops of an all-to-all.

    Args:
        nbytes: Bytes that one rank holds on average (it keeps 1/n); broadcasts with the fields of `place` and `load`.
        place: Where the group sits.
        load: Imbalance, de-duplication and the way through the network.
    """
    n, m, k, s = in_place(place, np.asarray(nbytes, dtype=np.float64))
    busiest = np.asarray(load.imbalance, dtype=np.float64)
    local = s * (m - 1.0) / n * busiest
    leaving = np.where(k > 1, s * (n - m) / n, 0.0) * busiest
    out = leaving * np.asarray(load.unique_out_fraction, dtype=np.float64)
    up = local + (leaving * (m - 1.0) / np.maximum(m, 1.0) if load.two_level else 0.0 * leaving)
    up_hops = np.where(m > 1, 1.0, 0.0) * np.where((k > 1) & (not load.two_level), 0.0, 1.0)
    return Traffic(
        up_bytes=up,
        out_bytes=out,
        up_hops=up_hops,
        out_hops=np.where(k > 1, 1.0, 0.0),
        hbm_bytes=2.0 * (local + leaving) + 2.0 * s / n,
    )
