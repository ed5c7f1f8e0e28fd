"""A run's spot fleet: which of its nodes come and go when."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np

from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.runs.event_loop.program import Market
from windtunnel.runs.spot.availability import Availability
from windtunnel.runs.spot.formats import read_trace
from windtunnel.runs.spot.generated import generated
from windtunnel.specs.run_spot import SpotSpec

_KEPT = 256
"""Drawn fleets that stay in memory: runs with a change of each kind meet the same ones."""
_DRAWERS: dict[tuple[str, str, int, int, float], Callable[[int], Market]] = {}
_MOST_DRAWERS = 16


def market_drawer(spot: SpotSpec, folder: Path, num_nodes: int, length_s: float) -> Callable[[int], Market]:
    """Draws the fleet of a replication from its seed; the same fleets for whoever asks for the same.

    Args:
        spot: The scenario's section.
        folder: Folder that the trace is relative to.
        num_nodes: Nodes that the job asks for, spares included.
        length_s: Wall seconds to draw; a run that takes longer meets them again.

    Raises:
        BadInput: the trace cannot be read, or with every line that is damaged.
    """
    path = folder / (spot.trace or "")
    changed = path.stat().st_mtime_ns if spot.trace is not None and reading.is_file(path) else 0
    key = spot.model_dump_json(), str(path), changed, num_nodes, length_s
    if key not in _DRAWERS:
        if len(_DRAWERS) >= _MOST_DRAWERS:
            _DRAWERS.pop(next(iter(_DRAWERS)))
        _DRAWERS[key] = _drawer(spot, folder, num_nodes, length_s)
    return _DRAWERS[key]


def _drawer(spot: SpotSpec, folder: Path, num_nodes: int, length_s: float) -> Callable[[int], Market]:
    trace = None
    if spot.trace is not None:
        trace = read_trace(folder / spot.trace, spot.format).scaled(spot.scale, num_nodes)
        if trace.level.max() == 0:
            raise BadInput(Problem("run.spot.scale", f"leaves no node of {spot.trace}", spot.scale))

    @lru_cache(maxsize=_KEPT)
    def draw(seed: int) -> Market:
        random = np.random.Generator(np.random.Philox(seed))
        if trace is None:
            assert spot.rates is not None
            there = generated(spot.rates, num_nodes, spot.zones, length_s, random)
        elif spot.draw == "resample":
            there = trace.resampled(spot.block_s, length_s, random)
        else:
            there = trace
        zones = num_nodes if spot.reclaims == "anywhere" else min(spot.zones, num_nodes)
        return market_of(there, Zones(num_nodes, zones, seed), spot.notice_s)

    return draw


class Zones:
    """Which nodes of a fleet are there: neighbours of a zone go together, any node that is away comes."""

    def __init__(self, num_nodes: int, zones: int, seed: int) -> None:
        self.random = Random(seed)
        self.zone = [node * zones // num_nodes for node in range(num_nodes)]
        self.there: list[list[int]] = [[] for _ in range(zones)]
        """Nodes of each zone, in order."""
        self.away = list(range(num_nodes))

    def come(self, count: int) -> list[int]:
        """So many nodes that were away."""
        out = []
        for _ in range(count):
            place = int(self.random.random() * len(self.away))
            self.away[place], self.away[-1] = self.away[-1], self.away[place]
            out.append(self.away.pop())
            insort(self.there[self.zone[out[-1]]], out[-1])
        return out

    def go(self, count: int) -> list[int]:
        """So many nodes that were there: neighbours of one zone, then of the next."""
        out: list[int] = []
        while len(out) < count:
            place = int(self.random.random() * sum(map(len, self.there)))
            for zone in self.there:
                if place < len(zone):
                    break
                place -= len(zone)
            take = min(count - len(out), len(zone))
            first = min(place, len(zone) - take)
            out += zone[first : first + take]
            del zone[first : first + take]
        self.away += out
        return out


def market_of(there: Availability, zones: Zones, notice_s: float) -> Market:
    """Events of single nodes.

    Args:
        there: Nodes over time.
        zones: Which nodes there are.
        notice_s: Before a node goes.
    """
    at, node, comes = [], [], []
    level = 0
    for time, nodes in zip(there.at.tolist(), there.level.tolist(), strict=True):
        moved = zones.come(nodes - level) if nodes > level else zones.go(level - nodes)
        at += [time] * len(moved)
        node += moved
        comes += [nodes > level] * len(moved)
        level = nodes
    # a second round begins with the nodes of the first moment: all others go
    kept = set(node[: int(there.level[0])])
    beyond = [n for zone in zones.there for n in zone if n not in kept]
    return Market(
        at=np.array(at + [there.length_s] * len(beyond)),
        node=np.array(node + beyond, np.int64),
        comes=np.array(comes + [False] * len(beyond), np.bool_),
        cycle_s=there.length_s,
        present=0,
        notice_s=notice_s,
    )
