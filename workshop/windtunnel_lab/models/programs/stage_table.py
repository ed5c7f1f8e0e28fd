"""Tasks of several stages: which model and how many samples each stage gets under one budget, and how right that ends.

A stage's samples are drawn from the population of its model, and a selector chooses one. Problems that are hard in one
stage are hard in the others: points of all laws are in the same order. A stage that reads a wrong result of the one
before keeps a share of its chance. So the best choice of one stage depends on those of the others, and on what of the
budget they leave.

Source: Wang et al. 2025, AgentTTS (arXiv 2508.00890), section 3: the problem. Populations and selectors are ours
(`population`), graded assumed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import Infeasible
from windtunnel.population.reward_model import best_of_n


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a task, and what it may be given."""

    name: str
    models: tuple[str, ...]
    """The cheapest first."""
    points: tuple[Floats, ...]
    """By model: (Q,) success probabilities of one sample, ascending, equally weighted."""
    samples: tuple[int, ...]
    """Numbers of samples to choose from, ascending."""
    cost: Floats
    """(M, N) of every model with every number of samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTable:
    """Every choice that the budget allows. A choice is a model and a number of samples for each of S stages."""

    stages: tuple[Stage, ...]
    budget: float
    choices: Ints
    """(C, S, 2) places of model and number of samples."""
    accuracy: Floats
    """(C,) share of problems that end right."""
    cost: Floats
    """(C,)."""

    def index(self) -> dict[tuple[tuple[int, int], ...], int]:
        """Choice → its place in the table."""
        return {tuple((int(m), int(n)) for m, n in one): i for i, one in enumerate(self.choices)}


def stage_table(stages: Sequence[Stage], *, budget: float, separation: float, carried: float) -> StageTable:
    """All choices within a budget.

    Args:
        stages: in their order.
        budget: most that all stages may cost together.
        separation: standard deviations between the selector's mean scores of right and of wrong samples.
        carried: of a sample's chance, what remains where the stage before ended wrong.

    Raises:
        Infeasible: not even the cheapest choice of every stage is within the budget.
    """
    each = [list(itertools.product(range(len(s.models)), range(len(s.samples)))) for s in stages]
    every = np.array(list(itertools.product(*each)), np.int64)
    cost = sum((stage.cost[every[:, s, 0], every[:, s, 1]] for s, stage in enumerate(stages)), np.zeros(len(every)))
    kept = np.flatnonzero(cost <= budget * (1 + 1e-12))
    if not len(kept):
        least = float(cost.min())
        raise Infeasible(f"budget = {budget:g}: the cheapest choice of every stage costs {least:g}")
    choices = every[kept]
    right = np.ones((len(kept), len(stages[0].points[0])))
    for s, stage in enumerate(stages):
        good, poor = (_chosen(stage, separation, factor) for factor in (1.0, carried))
        own = choices[:, s, 0], choices[:, s, 1]
        right = right * good[own] + (1.0 - right) * poor[own]
    return StageTable(
        stages=tuple(stages), budget=budget, choices=choices, accuracy=right.mean(1), cost=np.asarray(cost[kept])
    )


def _chosen(stage: Stage, separation: float, factor: float) -> Floats:
    """(M, N, Q) chance that the chosen sample is right, with every sample's chance times a factor."""
    return np.array([[best_of_n(factor * p, n, separation) for n in stage.samples] for p in stage.points])
