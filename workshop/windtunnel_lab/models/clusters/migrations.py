"""Migrations of loads between nodes: overload avoided against the traffic that moving costs.

Loads need processors and memory that vary by step. A live migration copies the memory and then, round after round, what
was written meanwhile; a load that writes nearly as fast as the link copies costs many times its memory. Two planners
look at the next steps: greedy sends the largest load of an overloaded node to the emptiest one whatever it costs; the
search takes the move that saves most overload over those steps less the price of its bytes, and none where
none pays.

Source: Clark et al., Live Migration of Virtual Machines, NSDI 2005 (pre-copy rounds); the thesis of card
`intelligent-lb-cloud`: migration cost next to overload in one objective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints

ROUNDS = 8
"""Copies before a load is stopped for the rest."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads on nodes."""

    cpu: Floats
    """Shape (steps, loads), in nodes' processors."""
    memory_bytes: Floats
    """Shape (loads,)."""
    dirty_bytes_per_s: Floats
    """What each load writes."""
    nodes: int


def migration_bytes(memory_bytes: Floats, dirty_bytes_per_s: Floats, link_bytes_per_s: float) -> Floats:
    """Bytes of a pre-copy migration: memory times the sum of what each round leaves for the next.

    A load that writes faster than the link copies is stopped after the first round and sent once more.
    """
    share = np.minimum(dirty_bytes_per_s / link_bytes_per_s, 1.0)
    rounds = np.arange(ROUNDS + 1)[:, None]
    return np.asarray(memory_bytes * np.where(share < 1.0, (share[None, :] ** rounds).sum(0), 2.0))


def generated(seed: int, nodes: int = 20, per_node: int = 6, steps: int = 96) -> tuple[Loads, Ints]:
    """(loads, node of each at the start): a daily wave with phases of their own, noise, log-normal memories."""
    rng = np.random.default_rng(seed)
    count = nodes * per_node
    mean = rng.dirichlet(np.full(count, 4.0)) * 0.72 * nodes
    wave = 1.0 + 0.5 * np.sin(2 * np.pi * (np.arange(steps)[:, None] / steps + rng.random(count)))
    noise = np.exp(0.15 * rng.standard_normal((steps, count)))
    memory = np.exp(rng.normal(np.log(8e9), 0.8, count))
    dirty = np.exp(rng.normal(np.log(2e8), 1.0, count))
    return Loads(mean * wave * noise, memory, dirty, nodes), np.arange(count) % nodes


@dataclass(frozen=True, slots=True)
class Balance:
    """What a policy came to."""

    overload_share: float
    """Share of node-steps above capacity."""
    excess: float
    """Processors above capacity, mean over steps."""
    moved_bytes: float
    moves: int


def run(loads: Loads, at: Ints, policy: str, *, link_bytes_per_s: float, price: float, ahead: int = 4) -> Balance:
    """Simulate a policy.

    Args:
        loads: series.
        at: node of each load at the start.
        policy: stay, greedy or search.
        link_bytes_per_s: of a migration.
        price: processor-steps of overload that a node's memory worth of traffic (64 GB) is put at.
        ahead: steps that planners see.
    """
    cost = migration_bytes(loads.memory_bytes, loads.dirty_bytes_per_s, link_bytes_per_s) / 64e9
    at, over, excess, moved, moves = at.copy(), 0, 0.0, 0.0, 0
    steps = len(loads.cpu)
    for step in range(steps):
        view = loads.cpu[step : step + ahead]
        for load, node in _planned(loads, at, view, policy, cost * price):
            moved += cost[load] * 64e9
            moves += 1
            at[load] = node
        used = np.bincount(at, loads.cpu[step], loads.nodes)
        over += int((used > 1.0).sum())
        excess += float(np.maximum(used - 1.0, 0.0).sum())
    return Balance(over / (steps * loads.nodes), excess / steps, moved, moves)


def _planned(loads: Loads, at: Ints, view: Floats, policy: str, price: Floats) -> list[tuple[int, int]]:
    """Moves before a step."""
    if policy == "stay":
        return []
    out: list[tuple[int, int]] = []
    at = at.copy()
    for _ in range(loads.nodes):
        used = np.array([np.bincount(at, row, loads.nodes) for row in view], np.float64)
        full = np.flatnonzero(used[0] > 1.0)
        if len(full) == 0:
            return out
        node = int(full[used[0][full].argmax()])
        here = np.flatnonzero(at == node)
        if policy == "greedy":
            load, to = int(here[view[0][here].argmax()]), int(used[0].argmin())
            if used[0][to] + view[0][load] > 1.0:
                return out
        else:
            saved = _saved(used, view[:, here], node)
            net = saved - price[here][:, None]
            net[:, node] = -np.inf
            best = np.unravel_index(int(net.argmax()), net.shape)
            if net[best] <= 0.0:
                return out
            load, to = int(here[best[0]]), int(best[1])
        at[load] = to
        out.append((load, to))
    return out


def _saved(used: Floats, cpu: Floats, node: int) -> Floats:
    """Overload that each move of a load from a node to another saves over the view, shape (loads, nodes)."""
    before = np.maximum(used - 1.0, 0.0)
    source = np.maximum(used[:, node][:, None] - cpu - 1.0, 0.0)
    target = np.maximum(used[:, None, :] + cpu[:, :, None] - 1.0, 0.0)
    gone = before[:, node][:, None] - source
    return np.asarray((gone[:, :, None] - (target - before[:, None, :])).sum(0))
