"""Which nodes a job gets, in plain Python: the twin of `placement_kernel.py`."""

from __future__ import annotations

import numpy as np

from windtunnel.clusters.event_loop.job_twin import Nodes
from windtunnel.clusters.event_loop.records import BEST_FIT, CONSOLIDATED


def place(kind: int, devices: int, room: list[int], capacity: list[int]) -> Nodes:
    """Nodes for a job, none where there is no room.

    Args:
        kind: CONSOLIDATED, BEST_FIT or SPREAD.
        devices: that the job needs at once.
        room: idle devices of each node.
        capacity: devices of each node.
    """
    largest = max(capacity)
    if largest == 0:
        return []
    if kind == CONSOLIDATED:
        return _one(devices, room) if devices <= largest else _whole(devices, largest, room, capacity)
    if sum(max(r, 0) for r in room) < devices:
        return []
    if kind == BEST_FIT:
        return _one(devices, room) or _fewest(devices, room)
    return _spread(devices, room)


def _whole(devices: int, largest: int, room: list[int], capacity: list[int]) -> Nodes:
    whole, rest = divmod(devices, largest)
    idle = [n for n, r in enumerate(room) if capacity[n] == largest and r == largest][:whole]
    if len(idle) < whole:
        return []
    last = _one(rest, [-1 if n in idle else r for n, r in enumerate(room)]) if rest else []
    return [] if rest and not last else [(n, largest) for n in idle] + last


def add_devices(room: list[int], nodes: Nodes, sign: int) -> None:
    """Add devices to the room of nodes (sign 1), or take them (−1)."""
    for node, uses in nodes:
        room[node] += sign * uses


def _one(devices: int, room: list[int]) -> Nodes:
    fitting = [(r, n) for n, r in enumerate(room) if r >= devices]
    return [(min(fitting)[1], devices)] if fitting else []


def _fewest(devices: int, room: list[int]) -> Nodes:
    nodes: Nodes = []
    for node in np.argsort([-r for r in room], kind="stable"):
        taken = min(devices, room[node])
        if taken > 0:
            nodes.append((int(node), taken))
            devices -= taken
    return nodes


def _spread(devices: int, room: list[int]) -> Nodes:
    left, uses = list(room), dict[int, int]()
    for _ in range(devices):
        best = max(range(len(left)), key=lambda node: (left[node], -node))
        left[best] -= 1
        uses[best] = uses.get(best, 0) + 1
    return list(uses.items())
