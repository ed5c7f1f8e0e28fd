"""Completion times of irregular flows on explicit links: weighted max-min rates, event by event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats


@dataclass(frozen=True, slots=True)
class FlowTimes:
    """When flows end, in the order in which they were given."""

    start_s: Floats
    end_s: Floats
    """Infinite where a flow crosses a link without capacity."""
    solutions: int
    """How often rates were shared anew."""

    @property
    def seconds(self) -> Floats:
        """How long each flow took, shape (flows,)."""
        return self.end_s - self.start_s

    @property
    def makespan_s(self) -> float:
        """End of the last flow; 0 without flows."""
        return float(self.end_s.max(initial=0.0))


def simulate_flows(
    routes: npt.ArrayLike,
    capacity: npt.ArrayLike,
    nbytes: npt.ArrayLike,
    *,
    start_s: npt.ArrayLike = 0.0,
    weight: npt.ArrayLike = 1.0,
    tolerance: float = 0.0,
) -> FlowTimes:
    """Simulate flows that share links.

    Args:
        routes: Link ids, shape (flows, longest), −1 where a route is shorter (`network.topology` makes them).
        capacity: Bytes/s of each link, one direction, shape (links,).
        nbytes: Bytes of each flow, shape (flows,).
        start_s: When each flow starts, shape (flows,) or one number.
        weight: Share of each flow where a link is shared (a flow of two sub-flows counts 2), shaped like `start_s`.
        tolerance: 0 is exact; above, rates may rise late by half of this share of the youngest flow's age, which moved
            completion times by less than the share itself on random traffic.

    Raises:
        ValueError: shapes differ, a link id is unknown, or a number is negative.
    """
    table, rate = np.atleast_2d(np.asarray(routes, np.int64)), np.asarray(capacity, np.float64)
    n = len(table)
    size, start, share = (np.broadcast_to(np.asarray(x, np.float64), (n,)) for x in (nbytes, start_s, weight))
    used = table >= 0
    if table.size and int(table.max()) >= len(rate):
        raise ValueError(f"routes: link {int(table.max())} of {len(rate)}")
    for name, values in (("capacity", rate), ("nbytes", size), ("start_s", start)):
        if not (values >= 0).all():
            raise ValueError(f"{name}: must be 0 or more")
    if not (share > 0).all() or not 0.0 <= tolerance < 1.0:
        raise ValueError("weight: must be above 0; tolerance: from 0 to below 1")
    order = np.argsort(start, kind="stable")
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(used[order].sum(axis=1), out=ptr[1:])
    links = np.ascontiguousarray(table[order][used[order]])
    from windtunnel.engine.flow_kernel import run

    size, begin, share = (np.ascontiguousarray(x[order]) for x in (size, start, share))
    end, solutions = run(ptr, links, np.ascontiguousarray(rate), size, begin, share, float(tolerance))
    out = np.empty(n)
    out[order] = end
    return FlowTimes(np.array(start), out, int(solutions))
