"""Adaptive routes of a dragonfly: the minimal path, or one by way of another group where the minimal one is loaded.

Flows choose one after the other: each compares the fullest link of its minimal path with twice that of a path through
an intermediate group (it is twice as long), as the load stands, and takes the lesser.

Source: Kim et al., Technology-Driven, Highly-Scalable Dragonfly Topology, ISCA 2008, UGAL with global knowledge.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.network.topology import Dragonfly

WAYS = 4
"""Intermediate groups that a flow looks at."""


def detours(topology: Dragonfly, src: Ints, dst: Ints, group: Ints) -> Ints:
    """Routes by way of a router of another group, shape (flows, 10); −1 where a route is shorter.

    Both halves are minimal routes; the visit takes no host link.
    """
    hosts, per_group = topology.hosts, topology.routers * topology.hosts
    visited = group * per_group + (src // hosts % topology.routers) * hosts
    there, on = topology.routes(src, visited), topology.routes(visited, dst)
    there[:, 1], on[:, 0] = -1, -1
    return np.concatenate([there, on], axis=1)


def adaptive_routes(topology: Dragonfly, src: Ints, dst: Ints, nbytes: Floats, seed: int = 0) -> Ints:
    """Routes of flows that choose in turn, shape (flows, 10).

    Args:
        topology: groups, routers, links.
        src: devices that send, shape (flows,).
        dst: devices that receive.
        nbytes: of each flow.
        seed: of the groups that flows look at.
    """
    capacity = topology.capacity
    rng = np.random.default_rng(seed)
    straight = np.full((len(src), 10), -1, np.int64)
    straight[:, :5] = topology.routes(src, dst)
    ways = rng.integers(0, topology.groups, (len(src), WAYS))
    others = np.stack([detours(topology, src, dst, ways[:, i]) for i in range(WAYS)], axis=1)
    per_group = topology.routers * topology.hosts
    allowed = (ways != (src // per_group)[:, None]) & (ways != (dst // per_group)[:, None])
    load, out = np.zeros(len(capacity)), straight.copy()
    for i in range(len(src)):
        best, path = _fullest(load, capacity, straight[i]), straight[i]
        if src[i] // per_group != dst[i] // per_group:
            for j in range(WAYS):
                if allowed[i, j] and 2.0 * _fullest(load, capacity, others[i, j]) < best:
                    best, path = 2.0 * _fullest(load, capacity, others[i, j]), others[i, j]
        used = path[path >= 0]
        np.add.at(load, used, nbytes[i])
        out[i] = path
    return out


def _fullest(load: Floats, capacity: Floats, path: Ints) -> float:
    """Seconds that the fullest link between routers of a path has to send; host links are the same on every path."""
    used = path[path >= 0]
    return float((load[used] / capacity[used])[1:-1].max(initial=0.0))
