"""Paths of single micro-batches over nodes that differ in speed and distance, and the order in which nodes serve them.

Every stage has several nodes; a micro-batch begins on a node of the first stage, runs through one node of each stage on
its path (all of them, or fewer), returns to its first node for the loss and goes the same way back. A node holds few
micro-batches at once and serves one at a time, gradients first.

Source: Blagoev et al. 2025, SkipPipe, https://arxiv.org/abs/2502.19913. Its search is conflict-based; here they are
routed one after the other, around what earlier ones have taken, and a few orders are tried.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from windtunnel.arrays import Floats

FORWARD, LOSS, BACKWARD = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Net:
    """Nodes by stage, what they take for a micro-batch, and how long it takes between them."""

    stages: tuple[tuple[int, ...], ...]
    forward_s: Floats
    """(nodes,): one stage of one micro-batch, forward."""
    backward_s: Floats
    hop_s: Floats
    """(nodes, nodes): activations or their gradient, from one node to another."""
    memory: int | tuple[int, ...]
    """Micro-batches that a node may hold between forward and backward; for all alike, or for each."""


@dataclass(slots=True)
class Visit:
    """One pass of a micro-batch over a node."""

    micro_batch: int
    kind: int
    node: int
    start_s: float = 0.0
    end_s: float = 0.0


@dataclass(slots=True)
class Served:
    """Visits of each node in the order in which they run, and when the last one ends."""

    by_node: dict[int, list[Visit]] = field(default_factory=dict)
    makespan_s: float = 0.0


def straight(net: Net, count: int) -> list[tuple[int, ...]]:
    """Fixed pipelines, as many as the smallest stage has nodes; micro-batches in turn."""
    lanes = min(len(nodes) for nodes in net.stages)
    return [tuple(nodes[i % lanes] for nodes in net.stages) for i in range(count)]


def scattered(net: Net, count: int, length: int, seed: int) -> list[tuple[int, ...]]:
    """Paths of `length` stages drawn at random, every node with its share of them."""
    rng = np.random.default_rng(seed)
    later = range(1, len(net.stages))
    out = []
    used = np.zeros(len(net.forward_s))
    for i in range(count):
        chosen = sorted(rng.choice(list(later), length - 1, replace=False).tolist())
        path = [net.stages[0][i % len(net.stages[0])]]
        for stage in chosen:
            nodes = net.stages[stage]
            node = min(nodes, key=lambda n: (used[n], rng.random()))
            used[node] += 1
            path.append(node)
        out.append(tuple(path))
    return out


def routed(net: Net, count: int, length: int, order: Sequence[int] | None = None) -> list[tuple[int, ...]]:
    """Paths of `length` stages around the nodes that earlier micro-batches keep busy.

    Args:
        net: the nodes.
        count: micro-batches, spread evenly over the nodes of the first stage.
        length: stages that each visits, the first among them.
        order: in which they are routed.
    """
    later = range(1, len(net.stages))
    visits = count * (length - 1)
    most = -(-visits // sum(len(net.stages[s]) for s in later))
    free = np.zeros(len(net.forward_s))
    load = np.zeros(len(net.forward_s), np.int64)
    both = net.forward_s + net.backward_s
    paths: list[tuple[int, ...]] = [()] * count
    for i in order if order is not None else range(count):
        first = net.stages[0][i % len(net.stages[0])]
        began = free[first] + net.forward_s[first]
        best: tuple[tuple[float, float], tuple[int, ...]] | None = None
        for chosen in combinations(later, length - 1):
            open_nodes = [[n for n in net.stages[s] if load[n] < most] for s in chosen]
            for nodes in product(*open_nodes):
                at, here, hops = began, first, 0.0
                for node in nodes:
                    hops += net.hop_s[here, node]
                    at = max(at + net.hop_s[here, node], free[node]) + net.forward_s[node]
                    here = node
                key = (at + net.hop_s[here, first], hops)
                if best is None or key < best[0]:
                    best = key, nodes
        if best is None:  # every other node is full: one more for the least loaded
            nodes = tuple(min(net.stages[s], key=lambda n: int(load[n])) for s in list(later)[: length - 1])
        else:
            nodes = best[1]
        free[first] += both[first]
        for node in nodes:
            free[node] = max(free[node], 0.0) + both[node]
            load[node] += 1
        paths[i] = (first, *nodes)
    return paths


def serve(net: Net, paths: Sequence[tuple[int, ...]]) -> Served:
    """Run all micro-batches; nodes take gradients first, then forwards that fit, oldest first.

    Stages on a path rise, so that a micro-batch waits only for nodes of later stages: no path waits for itself.
    """
    ready: dict[int, list[tuple[int, float, int, int, int]]] = {n: [] for nodes in net.stages for n in nodes}
    held = dict.fromkeys(ready, 0)
    most = {n: net.memory if isinstance(net.memory, int) else net.memory[n] for n in ready}
    free = dict.fromkeys(ready, 0.0)
    events: list[tuple[float, int, int, int, int, int]] = []
    out = Served({n: [] for n in ready})
    ticket = 0

    def arrive(at: float, node: int, kind: int, i: int, k: int) -> None:
        nonlocal ticket
        ticket += 1
        heapq.heappush(events, (at, ticket, node, kind, i, k))

    for i, path in enumerate(paths):
        arrive(0.0, path[0], FORWARD, i, 0)
    while events:
        at, _, node, kind, i, k = heapq.heappop(events)
        if i >= 0:
            heapq.heappush(ready[node], (0 if kind == BACKWARD else 1, at, i, kind, k))
        if at < free[node]:
            continue
        waiting = ready[node]
        pick = next((x for x in sorted(waiting) if x[3] == BACKWARD or held[node] < most[node]), None)
        if pick is None:
            continue
        waiting.remove(pick)
        heapq.heapify(waiting)
        _, _, i, kind, k = pick
        path = paths[i]
        took = float((net.backward_s if kind == BACKWARD else net.forward_s)[node])
        end = at + took
        free[node] = end
        held[node] += 1 if kind == FORWARD else -1
        out.by_node[node].append(Visit(i, kind, node, at, end))
        out.makespan_s = max(out.makespan_s, end)
        arrive(end, node, FORWARD, -1, 0)  # look again
        if kind == FORWARD:
            if k + 1 < len(path):
                arrive(end + net.hop_s[node, path[k + 1]], path[k + 1], FORWARD, i, k + 1)
            else:  # the loss is on the first node; its gradient comes back the same way
                there = net.hop_s[node, path[0]] + net.hop_s[path[0], node]
                arrive(end + (there if node != path[0] else 0.0), node, BACKWARD, i, k)
        elif k:
            arrive(end + net.hop_s[node, path[k - 1]], path[k - 1], BACKWARD, i, k - 1)
    return out


def best_routes(net: Net, count: int, length: int, tries: int = 12, seed: int = 5) -> list[tuple[int, ...]]:
    """The shortest of a few orders of routing."""
    rng = np.random.default_rng(seed)
    found = [routed(net, count, length)]
    found += [routed(net, count, length, rng.permutation(count).tolist()) for _ in range(tries)]
    return min(found, key=lambda paths: serve(net, paths).makespan_s)
