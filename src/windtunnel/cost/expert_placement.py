"""Where a token's next expert is: routing that remembers the layer before, placements, and tokens that stay.

What an expert in one layer says of the expert in the next is drawn: each expert has a favourite order of successors,
and the k-th of it is taken in proportion to k to the power of minus `affinity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import LinearConstraint, linear_sum_assignment, milp

from windtunnel.arrays import Floats, Ints

LAYERS = 6
"""Mixtures in a row that are drawn and placed: statistics of longer chains are the same."""
SWEEPS = 3
NODE_WEIGHT = 4.0
"""What leaving a node counts against leaving a rank, in the objective: a network port against a scale-up link."""
EXACT = 8
"""Experts up to which a layer is placed by the mixed-integer programme; beyond, by the assignment it relaxes to, which
has whole numbers as well."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Shares of tokens from one mixture to the next, and evenness."""

    rank: float
    """That find their next expert on their own rank."""
    node: float
    """On their own node, that rank included."""
    uneven: float
    """Tokens of the busiest rank over the mean."""


def successors(experts: int, affinity: float, rng: np.random.Generator) -> Floats:
    """(E, E) probability of each expert in the next layer by the expert in this one; rows sum to one.

    Source: Yao et al. 2024 (arXiv 2401.08383), section 4: heat maps in which few successors take most tokens; Zipf's
    law over a random order stands for them.
    Valid for: one expert a token; with several, for each of them.
    """
    share = np.arange(1, experts + 1, dtype=np.float64) ** -affinity
    share /= share.sum()
    return np.stack([share[rng.permutation(experts)] for _ in range(experts)])


def by_number(experts: int, ranks: int) -> Ints:
    """(E,) rank of each expert, dealt in the order of their numbers.

    Source: the order in which DeepSpeed-MoE, vLLM and SGLang deal experts.
    Valid for: any numbers.
    """
    return np.arange(experts) * ranks // experts


def assigned(gain: Floats, ranks: int) -> Ints:
    """(E,) rank of each expert so that the gains of all are largest and every rank has as many experts.

    Source: Yao et al. 2024 (arXiv 2401.08383), equation 8: an integer programme; with the other layers held it is an
    assignment problem.
    Valid for: experts that ranks divide.

    Args:
        gain: (E, ranks) tokens that stay if an expert is placed on a rank.
        ranks: to place on.
    """
    experts = len(gain)
    if experts <= EXACT:
        size = experts * ranks
        once = np.kron(np.eye(experts), np.ones(ranks))
        even = np.kron(np.ones(experts), np.eye(ranks))
        rules = [LinearConstraint(once, 1, 1), LinearConstraint(even, experts // ranks, experts // ranks)]
        found = milp(-gain.ravel(), constraints=rules, integrality=np.ones(size), bounds=(0, 1))
        return np.asarray(found.x.reshape(experts, ranks).argmax(axis=1), np.int64)
    slots = np.repeat(np.arange(ranks), experts // ranks)
    _, column = linear_sum_assignment(-gain[:, slots])
    return np.asarray(slots[column], np.int64)


def placed(chain: list[Floats], load: list[Floats], ranks: int, per_node: int) -> list[Ints]:
    """Placement of each layer that keeps tokens: layer by layer, then again with both neighbours held.

    Source: Yao et al. 2024 (arXiv 2401.08383), section 4.3: hops between ranks and nodes as the objective.
    Valid for: experts that ranks divide; a local optimum of the joint programme.

    Args:
        chain: probabilities of successors between neighbouring layers.
        load: (E,) share of tokens of each expert, layer by layer.
        ranks: to place on.
        per_node: of them in a node.
    """
    experts = len(load[0])
    node = np.arange(ranks) // per_node
    same = np.eye(ranks) + NODE_WEIGHT * (node[:, None] == node[None, :])
    out = [by_number(experts, ranks) for _ in load]

    def kept(layer: int, *, ahead: bool) -> Floats:
        gain = np.zeros((experts, ranks))
        if layer > 0:
            flow = load[layer - 1][:, None] * chain[layer - 1]
            gain += flow.T @ same[out[layer - 1]]
        if ahead and layer < len(chain):
            flow = load[layer][:, None] * chain[layer]
            gain += flow @ same[out[layer + 1]]
        return gain

    for layer in range(1, len(load)):
        out[layer] = assigned(kept(layer, ahead=False), ranks)
    for _ in range(SWEEPS):
        for layer in range(len(load)):
            out[layer] = assigned(kept(layer, ahead=True), ranks)
    return out


def stays(chain: list[Floats], load: list[Floats], where: list[Ints], ranks: int, per_node: int) -> Stay:
    """What a placement keeps, on average over layers.

    Source: the definition of a hop, Yao et al. 2024 (arXiv 2401.08383), section 4.3.
    Valid for: any placement.
    """
    rank = node = uneven = 0.0
    for i, step in enumerate(chain):
        flow = load[i][:, None] * step
        rank += float(flow[where[i][:, None] == where[i + 1][None, :]].sum())
        node += float(flow[where[i][:, None] // per_node == where[i + 1][None, :] // per_node].sum())
    for share, places in zip(load, where, strict=True):
        uneven += float(np.bincount(places, share, ranks).max() * ranks)
    return Stay(rank / len(chain), node / len(chain), uneven / len(load))


@lru_cache(maxsize=256)
def stay(experts: int, ranks: int, per_node: int, affinity: float, by_affinity: bool, seed: int = 0) -> Stay:
    """Tokens that stay, with experts placed by their affinity or by their number.

    Source: as `successors` and `assigned`.
    Valid for: experts that ranks divide; else they count as placed by number.
    """
    if ranks == 1:
        return Stay(1.0, 1.0, 1.0)
    rng = np.random.default_rng(seed)
    chain = [successors(experts, affinity, rng) for _ in range(LAYERS - 1)]
    load = [np.full(experts, 1.0 / experts)]
    for step in chain:
        load.append(load[-1] @ step)
    plain = [by_number(experts, ranks) for _ in load]
    where = placed(chain, load, ranks, per_node) if by_affinity and experts % ranks == 0 else plain
    return stays(chain, load, where, ranks, per_node)
