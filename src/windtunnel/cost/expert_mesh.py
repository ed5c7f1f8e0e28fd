"""Tokens on their way to experts over a mesh or torus: where experts and their copies lie, and which links are full.

Every hop of a token takes a link, so that two things fill links: experts that many tokens want, and experts far from
those that want them. Copies of hot experts, spread over the mesh, shorten the way; a token goes to the nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.routing import busiest_s
from windtunnel.network.topology import TorusGraph

SLACK = 1.1
"""Load over the mean up to which a rank gets a further expert because it is near; prior: a tenth of waiting is what
chance alone costs where ranks get about a hundred rows."""


@dataclass(frozen=True, slots=True)
class ExpertMesh:
    """A mesh or torus of domains that hold experts."""

    shape: tuple[int, ...]
    """Sides in domains, fastest-varying first."""
    wraps: bool

    @property
    def graph(self) -> TorusGraph:
        """With links that are as fast as ports of rate 1 allow: a domain's ports are its links."""
        return TorusGraph(self.shape, 1.0 / (2 * len(self.shape)), wraps=self.wraps)


@lru_cache(maxsize=16)
def distances(mesh: ExpertMesh) -> Floats:
    """(D, D) links between domains.

    Source: dimension-ordered shortest routes, `network.topology.TorusGraph`.
    Valid for: meshes and tori of any sides.
    """
    n = mesh.graph.num_devices
    out, stride = np.zeros((n, n)), 1
    for side in mesh.shape:
        x = np.arange(n) // stride % side
        apart = np.abs(x[:, None] - x[None, :])
        out += np.minimum(apart, side - apart) if mesh.wraps else apart
        stride *= side
    return out


def spread(load: Floats, ranks: int, redundant: int, apart: Floats) -> Floats:
    """(R, E) 1 where a rank holds an expert: hot experts copied by load, copies laid where tokens have short ways.

    The next copy goes to the expert with most tokens a copy. From the heaviest copy on, each takes the rank that
    brings it nearest to all, among those with a free slot that stay below `SLACK` of the mean load; where there is none
    the rank with least.

    Source: deepseek-ai/EPLB for copies; Yu et al. 2025 (arXiv 2510.05497) for placing and copying by forecast near
    those that ask; the greedy rule for medians on a graph.
    Valid for: tokens that start on all ranks alike.

    Args:
        load: (E,) forecast tokens of each expert.
        ranks: that hold experts.
        redundant: copies next to one of each.
        apart: (R, R) links between ranks.
    """
    copies = np.ones(len(load), np.int64)
    for _ in range(redundant):
        copies[int(np.argmax(np.where(copies < ranks, load / copies, -1.0)))] += 1
    slots = -(-int(copies.sum()) // ranks)
    held, have, used = np.zeros((ranks, len(load))), np.zeros(ranks), np.zeros(ranks, np.int64)
    near = np.full((len(load), ranks), float(apart.max()) + 1.0)
    parts = np.repeat(np.arange(len(load)), copies)
    weight = (load / copies)[parts]
    mean = float(load.sum()) / ranks
    for i in np.argsort(-weight, kind="stable"):
        e = parts[i]
        free = (used < slots) & (held[:, e] == 0)
        if not free.any():  # each rank with a slot left has this expert: one copy less
            continue
        light = free & (have + weight[i] <= SLACK * mean)
        way = np.minimum(near[e][None, :], apart).sum(axis=1)
        cost = np.where(light, way, np.inf) if light.any() else np.where(free, have, np.inf)
        rank = int(np.lexsort((have, cost))[0])
        held[rank, e] = 1.0
        near[e] = np.minimum(near[e], apart[rank])
        have[rank] += weight[i]
        used[rank] += 1
    return held


def nearest(held: Floats, apart: Floats) -> Floats:
    """(E, R, R) share of the tokens of a rank for an expert that go to each rank: to the nearest copies alike.

    Source: Yu et al. 2025 (arXiv 2510.05497): tokens are computed where an expert is near.
    Valid for: every expert held somewhere.
    """
    out = np.zeros((held.shape[1], *apart.shape))
    for e in range(held.shape[1]):
        way = np.where(held[:, e] > 0, apart, np.inf)
        best = way == way.min(axis=1, keepdims=True)
        out[e] = best / best.sum(axis=1, keepdims=True)
    return out


def sent(rows: Floats, ways: Floats) -> Floats:
    """(R, R) rows from rank to rank.

    Source: rows times shares.
    Valid for: any.

    Args:
        rows: (R, E) rows of each rank for each expert.
        ways: (E, R, R) of `nearest`.
    """
    return np.asarray(np.einsum("se,esd->sd", rows, ways))


def busiest(mesh: ExpertMesh, traffic: Floats) -> float:
    """Time of the busiest link over that of the ports of a domain that sends as much as the mean, 1 or more.

    Source: flows that start together on dimension-ordered routes, both ways of an exchange alike.
    Valid for: links of one rate.

    Args:
        mesh: with as many domains as `traffic` has rows.
        traffic: (D, D) rows from domain to domain; what stays takes no link.
    """
    i, j = np.nonzero((traffic > 0) & ~np.eye(len(traffic), dtype=bool))
    if not len(i):
        return 1.0
    graph, flows = mesh.graph, traffic[i, j]
    out = busiest_s(graph.routes(i, j), flows, graph.capacity)
    back = busiest_s(graph.routes(j, i), flows, graph.capacity)
    return max(0.5 * (out + back) / (float(flows.sum()) / len(traffic)), 1.0)
