"""Moves of virtual machines that join fragments of idle cores, while the machines come and go.

A host has two NUMA nodes of so many cores; idle cores that make no whole slot (16 cores) are fragments. At most L moves
are planned on what is seen now; when the plan is ready, some machines have gone, others have come, and a move whose
machine is gone or whose room is taken is void. Three planners: greedy by the slots that a move frees, a sampled policy
whose preferences are learned, the best of its samples taken, and a mixed integer programme (HiGHS), exact and late.

Source: Ding et al., VMR2L, EuroSys 2025, arXiv 2505.17359: fragment rate, limit on moves, drift while solving,
risk-seeking choice among samples. The policy there is a transformer; here it weighs four features of a move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints

SLOT = 16
"""Cores whose fragments count."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Virtual machines on NUMA nodes."""

    capacity: int
    """Cores of a NUMA node."""
    nodes: int
    cores: Ints
    """Of each machine, shape (machines,)."""
    at: Ints
    """NUMA node of each machine."""

    @property
    def idle(self) -> Ints:
        """Idle cores of each node."""
        return np.asarray(self.capacity - np.bincount(self.at, self.cores, self.nodes).astype(np.int64))

    @property
    def fragment_rate(self) -> float:
        """Idle cores beyond whole slots over all idle cores."""
        idle = self.idle
        return float((idle % SLOT).sum() / max(idle.sum(), 1))


Moves = list[tuple[int, int]]
"""(machine, node to which it goes), in order."""
DEFAULT = np.array([4.0, 0.0, 0.0, 0.0])
"""Preferences that know only the slots that a move frees."""


def generated(seed: int, nodes: int = 40, capacity: int = 44, fill: float = 0.85) -> Hosts:
    """Nodes filled by first fit in random order, then thinned: machines that left have left fragments."""
    rng = np.random.default_rng(seed)
    sizes, weights = np.array([1, 2, 4, 8, 16]), np.array([0.15, 0.2, 0.3, 0.2, 0.15])
    idle, cores, at = np.full(nodes, capacity), list[int](), list[int]()
    while True:
        size = int(rng.choice(sizes, p=weights))
        room = np.flatnonzero(idle >= size)
        if len(room) == 0:
            break
        where = int(room[rng.integers(len(room))])
        idle[where] -= size
        cores.append(size)
        at.append(where)
    keep = rng.permutation(len(cores))
    total = np.cumsum(np.array(cores)[keep])
    keep = np.sort(keep[total <= fill * nodes * capacity])
    return Hosts(capacity, nodes, np.array(cores)[keep], np.array(at)[keep])


def features(hosts: Hosts) -> tuple[Floats, Floats]:
    """(features of every move, where it is allowed): shapes (machines, nodes, 4) and (machines, nodes).

    Slots gained in sum, fragments left at the source, fragments left at the target, cores moved (of a slot).
    """
    idle = hosts.idle
    source, size = idle[hosts.at][:, None], hosts.cores[:, None]
    target = np.broadcast_to(idle, (len(hosts.cores), hosts.nodes))
    after, left = source + size, target - size
    slots = after // SLOT - source // SLOT + np.where(left >= 0, left, 0) // SLOT - target // SLOT
    here = np.arange(hosts.nodes)[None, :] == hosts.at[:, None]
    shape = target.shape
    parts = (slots, -(after % SLOT) / SLOT, -(left % SLOT) / SLOT, -size / SLOT)
    return np.stack([np.broadcast_to(p, shape) for p in parts], axis=2).astype(float), (left >= 0) & ~here


def moved(hosts: Hosts, machine: int, node: int) -> Hosts:
    """After one move."""
    at = hosts.at.copy()
    at[machine] = node
    return Hosts(hosts.capacity, hosts.nodes, hosts.cores, at)


def plan(hosts: Hosts, limit: int, weights: Floats = DEFAULT, rng: np.random.Generator | None = None) -> Moves:
    """Moves one after the other by preference; at random in proportion to e^preference where `rng` is given."""
    out: Moves = []
    for _ in range(limit):
        values, allowed = features(hosts)
        score = np.where(allowed, values @ weights, -np.inf)
        if rng is not None:
            score = score + rng.gumbel(size=score.shape)
        machine, node = np.unravel_index(int(score.argmax()), score.shape)
        if not np.isfinite(score[machine, node]):
            break
        out.append((int(machine), int(node)))
        hosts = moved(hosts, int(machine), int(node))
    return out


def best_prefix(hosts: Hosts, moves: Moves) -> tuple[float, Moves]:
    """The least fragment rate on the way, and the moves up to there."""
    best, chosen = hosts.fragment_rate, 0
    for i, (machine, node) in enumerate(moves):
        hosts = moved(hosts, machine, node)
        if hosts.fragment_rate < best:
            best, chosen = hosts.fragment_rate, i + 1
    return best, moves[:chosen]


def greedy(hosts: Hosts, limit: int) -> Moves:
    """The move that frees most slots, again and again, while one frees any."""
    out: Moves = []
    for machine, node in plan(hosts, limit):
        after = moved(hosts, machine, node)
        if after.fragment_rate >= hosts.fragment_rate:
            break
        out.append((machine, node))
        hosts = after
    return out


def sampled(hosts: Hosts, limit: int, weights: Floats, samples: int, seed: int) -> Moves:
    """The best of some sampled plans: the risk-seeking choice."""
    rng = np.random.default_rng(seed)
    tried = [best_prefix(hosts, plan(hosts, limit, weights, rng if i else None)) for i in range(samples)]
    return min(tried, key=lambda pair: pair[0])[1]


def learned(instances: list[Hosts], limit: int, *, rounds: int = 6, population: int = 16, seed: int = 0) -> Floats:
    """Preferences found by the cross-entropy method on the mean least fragment rate of some instances."""
    rng = np.random.default_rng(seed)
    mean, spread = DEFAULT.copy(), np.full(len(DEFAULT), 3.0)
    for _ in range(rounds):
        tried = np.concatenate([mean[None, :], rng.normal(mean, spread, (population - 1, len(mean)))])
        rates = [np.mean([best_prefix(x, plan(x, limit, w))[0] for x in instances]) for w in tried]
        elite = tried[np.argsort(rates)[: population // 4]]
        mean, spread = elite.mean(0), elite.std(0) + 0.05
    return mean


def exact(hosts: Hosts, limit: int, seconds: float = 60.0) -> Moves:
    """The moves of the mixed integer programme: as many whole slots as at most `limit` moves can make.

    Machines of one size on one node are alike, so that a variable counts them. Slots are whole: a bound less than one
    slot away proves the optimum. An order in which every move finds room
    is found by making those first that fit.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    kinds = sorted(set(zip(hosts.cores.tolist(), hosts.at.tolist(), strict=True)))
    flows = [(k, node) for k, (_, source) in enumerate(kinds) for node in range(hosts.nodes) if node != source]
    held = [int(((hosts.cores == size) & (hosts.at == source)).sum()) for size, source in kinds]
    n, slots = len(flows), hosts.nodes
    room, per_kind = np.zeros((slots, n + slots)), np.zeros((len(kinds), n + slots))
    for i, (k, node) in enumerate(flows):
        size, source = kinds[k]
        room[node, i] += size
        room[source, i] -= size
        per_kind[k, i] = 1.0
    room[np.arange(slots), n + np.arange(slots)] = SLOT
    few = np.concatenate([np.ones(n), np.zeros(slots)])[None, :]
    upper = np.concatenate([[held[k] for k, _ in flows], np.full(slots, hosts.capacity // SLOT)])
    found = milp(
        np.concatenate([np.full(n, 1e-4), -np.ones(slots)]),
        constraints=[
            LinearConstraint(room, -np.inf, hosts.idle.astype(float)),
            LinearConstraint(per_kind, 0, np.array(held, float)),
            LinearConstraint(few, 0, float(limit)),
        ],
        integrality=np.ones(n + slots),
        bounds=Bounds(0, upper),
        options={"mip_rel_gap": 0.9 / max(hosts.idle.sum() // SLOT, 1), "time_limit": seconds},
    )
    if found.x is None:
        return []
    waiting: Moves = []
    used: set[int] = set()
    for i, (k, node) in enumerate(flows):
        size, source = kinds[k]
        alike = [m for m in np.flatnonzero((hosts.cores == size) & (hosts.at == source)).tolist() if m not in used]
        for machine in alike[: round(found.x[i])]:
            used.add(machine)
            waiting.append((machine, node))
    return _ordered(hosts, waiting)


def _ordered(hosts: Hosts, waiting: Moves) -> Moves:
    """The moves in an order in which each finds room; those that never do are left out."""
    out, idle = list[tuple[int, int]](), hosts.idle.copy()
    while waiting:
        fitting = next((m for m in waiting if idle[m[1]] >= hosts.cores[m[0]]), None)
        if fitting is None:
            return out
        waiting.remove(fitting)
        out.append(fitting)
        idle[fitting[1]] -= hosts.cores[fitting[0]]
        idle[hosts.at[fitting[0]]] += hosts.cores[fitting[0]]
    return out


def drifted(hosts: Hosts, changes: int, seed: int) -> tuple[Hosts, Ints]:
    """After some changes, half of them machines that leave and half machines that come to the node with least room.

    Returns:
        The nodes, and for each machine of before its index now, −1 where it is gone.
    """
    rng = np.random.default_rng(seed)
    cores, at, index = hosts.cores.tolist(), hosts.at.tolist(), list(range(len(hosts.cores)))
    before = hosts.cores
    for i in range(changes):
        if i % 2 == 0 and cores:
            gone = int(rng.integers(len(cores)))
            for listed in (cores, at, index):
                listed.pop(gone)
            continue
        size = int(rng.choice(before))
        idle = hosts.capacity - np.bincount(at, cores, hosts.nodes)
        room = np.flatnonzero(idle >= size)
        if len(room):
            cores.append(size)
            at.append(int(room[idle[room].argmin()]))
            index.append(-1)
    now = np.full(len(before), -1)
    for position, old in enumerate(index):
        if old >= 0:
            now[old] = position
    return Hosts(hosts.capacity, hosts.nodes, np.array(cores), np.array(at)), now


def carried_out(hosts: Hosts, moves: Moves, changes: int, seed: int) -> float:
    """Fragment rate after the drift and what is left of the plan."""
    now, index = drifted(hosts, changes, seed)
    for machine, node in moves:
        at = int(index[machine])
        if at >= 0 and now.idle[node] >= now.cores[at]:
            now = moved(now, at, node)
    return now.fragment_rate
