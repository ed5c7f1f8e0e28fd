"""Tokens that experts and their ranks get: a distribution of popularity, a placement, and its slowest rank.

A step lasts as long as the rank with most tokens. Two things make it longer than the mean: experts that are drawn more
often than others, and chance, which weighs most where a rank gets few tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.expert_mesh import ExpertMesh, busiest, distances, nearest, sent, spread

DRAWS = 8
"""Placements without balancing that are averaged: popular experts lie where they happen to."""
GRID = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLoad:
    """How unevenly experts are drawn, and what is done about it."""

    popularity: float
    """Exponent of Zipf's law: the k-th of the experts is drawn in proportion to k to the power of minus this."""
    redundant: int = 0
    """Copies next to one of each expert, over all ranks."""
    balanced: bool = False
    """Whether experts are copied and placed by their load."""
    interval: int = 3000
    """Iterations between two placements."""
    affinity: float = 0.0
    """What a token's expert says of the next: exponent of Zipf's law over an expert's successors (see
    `cost.expert_placement`)."""
    by_affinity: bool = False
    """Whether experts are placed so that tokens stay."""
    coherent: bool = False
    """Whether every rank keeps the context of all tokens, which then need not return to the rank they came from."""
    mesh: ExpertMesh | None = None
    """Links between the domains of the ranks, where their network is a mesh or torus."""
    near: bool = False
    """Whether copies are placed on that mesh so that tokens have short ways."""


def drawn(experts: int, topk: float, popularity: float) -> Floats:
    """(E,) probability that a token is sent to each expert, most popular first; they sum to `topk`.

    Source: Zipf's law, the form of popularity that serving studies of mixtures draw from; no token is sent to one
    expert twice.
    Valid for: exponents from 0 (all alike) up; measured popularities by layer are not read.
    """
    share = np.arange(1, experts + 1, dtype=np.float64) ** -popularity
    out = topk * share / share.sum()
    while (out > 1.0).any():  # nobody is drawn twice by a token: what is over goes to the others
        free = out < 1.0
        out = np.minimum(out, 1.0)
        out[free] *= (topk - (~free).sum()) / out[free].sum()
    return np.asarray(out)


def balanced(load: Floats, ranks: int, redundant: int) -> Floats:
    """(R, E) share of each expert's tokens that each rank computes: hot experts copied, then packed by load.

    Source: deepseek-ai/EPLB, `eplb.py`: the next copy goes to the expert with most tokens a copy; copies are packed
    from the heaviest on, each to the rank with least load that has a slot left.
    Valid for: one node's worth of ranks alike; copies by groups of experts (its hierarchical form) are not placed.
    """
    copies = np.ones(len(load))
    for _ in range(redundant):
        copies[int(np.argmax(load / copies))] += 1
    slots = int(np.ceil(copies.sum() / ranks))
    parts = np.repeat(np.arange(len(load)), copies.astype(int))
    weight = (load / copies)[parts]
    out, have, used = np.zeros((ranks, len(load))), np.zeros(ranks), np.zeros(ranks, int)
    for i in np.argsort(-weight, kind="stable"):
        rank = int(np.argmin(np.where(used < slots, have, np.inf)))
        out[rank, parts[i]] += 1.0 / copies[parts[i]]
        have[rank] += weight[i]
        used[rank] += 1
    return out


def as_they_come(load: Floats, ranks: int, seed: int) -> Floats:
    """(R, E): equal runs of experts in an order that knows nothing of load.

    Source: experts are dealt to ranks in the order of their numbers (vLLM, SGLang without EPLB), which has nothing to
    do with their load: any order stands for it.
    Valid for: ranks that hold whole experts.
    """
    order = np.random.default_rng(seed).permutation(len(load))
    out = np.zeros((ranks, len(load)))
    out[np.arange(len(load)) * ranks // len(load), order] = 1.0
    return out


@lru_cache(maxsize=64)
def _placements(experts: int, topk: float, ranks: int, load: ExpertLoad) -> tuple[Floats, tuple[Floats, ...]]:
    chance = drawn(experts, topk, load.popularity)
    if load.near and load.mesh:
        return chance, (_near(chance, ranks, load)[0],)
    if load.balanced:
        return chance, (balanced(chance, ranks, load.redundant),)
    return chance, tuple(as_they_come(chance, ranks, seed) for seed in range(DRAWS if load.popularity else 1))


def _near(chance: Floats, ranks: int, load: ExpertLoad) -> tuple[Floats, Floats]:
    """(R, E) share of an expert's tokens that each rank computes, and (R, R) rows from rank to rank."""
    assert load.mesh is not None
    at = np.arange(ranks) * load.mesh.graph.num_devices // ranks
    apart = distances(load.mesh)[np.ix_(at, at)]
    ways = nearest(spread(chance, ranks, load.redundant, apart), apart)
    return np.asarray(ways.mean(axis=1).T), sent(np.broadcast_to(chance, (ranks, len(chance))), ways)


@lru_cache(maxsize=64)
def crowded(experts: int, topk: float, ranks: int, load: ExpertLoad) -> tuple[float, float]:
    """(time of the busiest link over that of the ports, each sending its mean; share of rows that change domain).

    Source: routes of `cost.expert_mesh`; without placement by distance, every rank sends to an expert's ranks alike.
    Valid for: expected rows; chance between iterations is in `slowest`.
    """
    mesh = load.mesh
    if mesh is None:
        raise ValueError("load.mesh: needed for links")
    domains = mesh.graph.num_devices
    at = np.zeros((ranks, domains))
    at[np.arange(ranks), np.arange(ranks) * domains // ranks] = 1.0
    chance, placed = _placements(experts, topk, ranks, load)
    found = []
    for share in placed:
        rows = _near(chance, ranks, load)[1] if load.near else np.tile(share @ chance, (ranks, 1))
        between = at.T @ rows @ at
        found.append((busiest(mesh, between), 1.0 - float(np.trace(between) / between.sum())))
    return float(np.mean([x[0] for x in found])), float(np.mean([x[1] for x in found]))


def slowest(experts: int, topk: float, ranks: int, load: ExpertLoad, tokens: Floats) -> tuple[Floats, Floats]:
    """The rows of the slowest of `ranks` over the mean of all ranks, and the experts whose weights that rank reads.

    Rows of a rank are sums of many draws: normal, with the spread of independent draws; the largest of independent
    normal values is integrated.

    Source: central limit theorem for the rows; largest of independent values by the product of their distributions.
    Valid for: ranks with more than a few rows each; below that a normal law stands for whole numbers.

    Args:
        experts: routed experts.
        topk: experts of a token.
        ranks: that experts are spread over whole.
        load: how they are drawn and placed.
        tokens: (G,) of an iteration.
    """
    n = np.ascontiguousarray(tokens, np.float64)
    over, touched = _slowest(experts, topk, ranks, load, n.tobytes())
    return over.copy(), touched.copy()


@lru_cache(maxsize=4096)
def _slowest(experts: int, topk: float, ranks: int, load: ExpertLoad, tokens: bytes) -> tuple[Floats, Floats]:
    chance, placed = _placements(experts, topk, ranks, load)
    n = np.maximum(np.frombuffer(tokens), 1.0)[:, None]
    mean = n[:, 0] * topk / ranks
    rows, touched = np.zeros(len(n)), np.zeros(len(n))
    for share in placed:
        hit = share * chance
        middle, spread = n * hit.sum(1), np.sqrt(np.maximum(n * (hit * (1.0 - hit)).sum(1), 1e-12))
        low, high = (middle - 5.0 * spread).max(1), (middle + 6.0 * spread).max(1)
        x = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, GRID)
        z = (x[:, :, None] - middle[:, None, :]) / spread[:, None, :]
        below = _normal(z).prod(2)
        rows += low + np.trapezoid(1.0 - below, x, axis=1)
        held = [1.0 - (1.0 - hit[:, hit.any(0)]) ** m for m in n[:, 0]]
        touched += np.array([h.sum(1).max() for h in held])
    rows, touched = rows / len(placed), touched / len(placed)
    return np.clip(rows, mean, n[:, 0] * topk) / mean, touched


def _normal(z: Floats) -> Floats:
    """Normal distribution function (Abramowitz and Stegun 26.2.17; error below 1e-7)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    upper = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) * tail
    return np.asarray(np.where(z >= 0.0, 1.0 - upper, upper))
