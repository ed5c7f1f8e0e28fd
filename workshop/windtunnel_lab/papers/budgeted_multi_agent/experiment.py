"""Trees of votes level by level, exactly and drawn, against the boundary of the closed form."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from windtunnel.laws.published.budgeted_multi_agent import amplification, level, organization
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "budgeted-multi-agent")
fixed = EXPERIMENT.fixed


def grid() -> Iterator[tuple[int, float, float]]:
    """Fan-in, correlation and fidelity."""
    return itertools.product(fixed("children"), fixed("correlation"), fixed("fidelity"))


def root(bias: float, depth: int, children: int, correlation: float, fidelity: float) -> float:
    """Bias of a tree of so many levels over leaves of a bias."""
    for _ in range(depth):
        bias = level(bias, children, correlation, fidelity)
    return bias


def wrong_sides() -> float:
    """Points of the grid at which the tree wins although s is not above β, or the other way round."""
    depth, leaf, wrong = fixed("depth"), fixed("leaf"), 0
    for case in grid():
        for beta in fixed("beta"):
            alone = leaf * float(case[0] ** depth) ** beta  # one agent with the budget of all leaves
            wrong += (root(leaf, depth, *case) > alone) != (organization(*case) > beta)
    return float(wrong)


def wrong_phases() -> float:
    """Points at which a small bias grows although the scalar is below 1, or shrinks although it is above."""
    leaf = fixed("leaf")
    cases = [case for case in grid() if abs(amplification(*case) - 1.0) > 1e-9]
    return float(sum((root(leaf, 1, *case) > leaf) != (amplification(*case) > 1.0) for case in cases))


def drawn() -> float:
    """Bias of trees whose votes are drawn, over the recursion."""
    case = fixed("drawn")
    rng = np.random.default_rng(case["seed"])
    children, rho, gamma = case["children"], case["correlation"], case["fidelity"]
    votes = np.where(rng.random((case["trees"], children ** case["levels"])) < (1.0 + case["bias"]) / 2.0, 1, -1)
    for _ in range(case["levels"]):
        heard = np.where(rng.random(votes.shape) < gamma, votes, rng.choice([-1, 1], votes.shape))
        groups = heard.reshape(len(votes), -1, children)
        shared = rng.random(groups.shape[:2]) < rho
        votes = np.where(shared, groups[:, :, 0], np.sign(groups.sum(axis=2)))
    told = root(case["bias"], case["levels"], children, rho, gamma)
    return float(np.mean(votes)) / told


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "boundary": lambda _: wrong_sides(),
        "collapse": lambda _: wrong_phases(),
        "drawn": lambda _: drawn(),
    }
