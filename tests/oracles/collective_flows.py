"""Flow-level times: max-min fair rates on explicit links, one solution per distinct step of an algorithm.

Symmetric algorithms repeat a few patterns of simultaneous flows, so the answer needs as many max-min problems as there
are distinct steps (a ring: one), not as many as there are messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.network.double_tree import double_tree
from windtunnel.network.topology import Topology


@dataclass(frozen=True, slots=True)
class Step:
    """Flows that run at the same time, and how often the step repeats."""

    src: Ints
    dst: Ints
    nbytes: Floats
    repeat: float = 1.0
    hops: float = 1.0
    """Dependent messages whose latency the step adds, per repetition."""


def max_min(routes: Ints, capacity: Floats) -> Floats:
    """Max-min fair rates of flows, by progressive filling.

    Args:
        routes: Link ids, shape (flows, longest), −1 for none.
        capacity: Bytes/s, shape (links,).

    Returns:
        Bytes/s per flow, shape (flows,); infinite for a flow that uses no link.
    """
    flows, width = routes.shape
    used = routes >= 0
    rate = np.full(flows, np.inf)
    left = capacity.astype(np.float64).copy()
    open_: Mask = np.asarray(used.any(axis=1))
    flow_of = np.repeat(np.arange(flows), width).reshape(flows, width)[used]
    link_of = routes[used]
    while open_.any():
        alive = open_[flow_of]
        count = np.bincount(link_of[alive], minlength=len(left))
        share = np.full(len(left), np.inf)
        busy = count > 0
        share[busy] = left[busy] / count[busy]
        level = share.min()
        tight = share <= level * (1 + 1e-12)
        hit = np.zeros(flows, dtype=bool)
        hit[flow_of[alive & tight[link_of]]] = True
        rate[hit] = level
        taken = np.bincount(link_of[hit[flow_of]], minlength=len(left)) * level
        left = np.maximum(left - taken, 0.0)
        open_ &= ~hit
    return rate


def step_s(step: Step, topology: Topology) -> float:
    """Seconds of one repetition without latency: the slowest flow at its max-min rate.

    Rates are those of the start of the step; exact when the flows that finish last saturate their link throughout
    (equal sizes on the busiest links, as in every algorithm here).
    """
    if not len(step.src):
        return 0.0
    rate = max_min(topology.routes(step.src, step.dst), topology.capacity)
    return float(np.max(step.nbytes / rate))


def total_s(steps: list[Step], topology: Topology, hop_s: float = 0.0) -> float:
    """Seconds of a whole collective: Σ repeat · (step + hops · latency)."""
    return sum(s.repeat * (step_s(s, topology) + s.hops * hop_s) for s in steps)


def placed(steps: list[Step], where: Ints) -> list[Step]:
    """The same steps with rank r on device `where[r]` of a topology, `where` of shape (ranks,)."""
    return [replace(step, src=where[step.src], dst=where[step.dst]) for step in steps]


def ring_steps(op: str, nbytes: float, ranks: int, per_domain: int) -> list[Step]:
    """Steps of a ring with one channel per device of a domain; channel c leaves each domain from its device c.

    Args:
        op: all_reduce, all_gather or reduce_scatter.
        nbytes: Whole tensor.
        ranks: Ranks, a multiple of per_domain.
        per_domain: Ranks in one domain, consecutive.
    """
    if ranks < 2:
        return []
    m = per_domain
    place = np.arange(ranks, dtype=np.int64)
    src, dst = [], []
    for channel in range(m):
        # Position p of a domain is device (channel + 1 + p) mod m: the last one is the channel's own.
        order = place // m * m + (place % m + channel + 1) % m
        src.append(order)
        dst.append(np.roll(order, -1))
    passes = 2 if op == "all_reduce" else 1
    size = np.full(ranks * m, nbytes / ranks / m)
    return [Step(np.concatenate(src), np.concatenate(dst), size, repeat=passes * (ranks - 1))]


def halving_doubling_steps(op: str, nbytes: float, ranks: int) -> list[Step]:
    """Exchanges with partners at distance 1, 2, 4, … carrying S/2, S/4, … (powers of two).

    Raises:
        ValueError: ranks is not a power of two.
    """
    if ranks & (ranks - 1):
        raise ValueError(f"ranks = {ranks}: a power of two")
    passes = 2.0 if op == "all_reduce" else 1.0
    rank = np.arange(ranks, dtype=np.int64)
    steps, distance, size = [], 1, nbytes / 2
    while distance < ranks:
        steps.append(Step(rank, rank ^ distance, np.full(ranks, size), repeat=passes))
        distance, size = distance * 2, size / 2
    return steps


def tree_steps(nbytes: float, ranks: int, per_domain: int) -> list[Step]:
    """All flows of a pipelined double-tree all-reduce at once (steady state), latency of one way up and down.

    Channel c meets the network at device c of each domain and runs as a chain through the others.
    """
    m, k = per_domain, ranks // per_domain
    src: list[Ints] = []
    dst: list[Ints] = []
    domain = np.arange(k, dtype=np.int64)
    for channel in range(m):
        chain = [(channel + p) % m for p in range(m)]
        for below, above in zip(chain[1:], chain[:-1], strict=True):
            src += [domain * m + below, domain * m + above]
            dst += [domain * m + above, domain * m + below]
        for parent in double_tree(k) if k > 1 else ():
            child = domain[parent >= 0]
            up, down = child * m + channel, parent[parent >= 0] * m + channel
            # A chain edge carries both trees' halves; a tree edge one half: give the chain two flows.
            src += [up, down]
            dst += [down, up]
    starts, ends = np.concatenate(src), np.concatenate(dst)
    inside = starts // m == ends // m
    size = np.where(inside, nbytes / m, nbytes / m / 2)
    depth = float(np.ceil(np.log2(k))) if k > 1 else 0.0
    return [Step(starts, ends, size, hops=2.0 * (m - 1 + depth))]


def pairwise_steps(nbytes: float, ranks: int) -> list[Step]:
    """All-to-all as ranks − 1 shifts that are posted together (one step)."""
    rank = np.arange(ranks, dtype=np.int64)
    shift = np.arange(1, ranks, dtype=np.int64)
    src = np.repeat(rank, ranks - 1)
    dst = (src + np.tile(shift, ranks)) % ranks
    return [Step(src, dst, np.full(len(src), nbytes / ranks))]
