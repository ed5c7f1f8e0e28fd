"""Cumulative regret of episodes on a toy: summed, closed and drawn."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def regret(successes: Any) -> float:
    """Cumulative regret of success after each episode, against an oracle that is right from the start."""
    return float(np.sum(1.0 - np.asarray(successes, float)))


def curve(p: float, episodes: int) -> Any:
    """Success after each episode that finds the answer with a probability and keeps it."""
    return 1.0 - (1.0 - p) ** np.arange(1, episodes + 1)


def closed(p: float, episodes: int) -> float:
    """The same regret as a geometric sum."""
    return (1.0 - p) / p * -math.expm1(episodes * math.log1p(-p))


def exact() -> float:
    """Largest relative difference of the sum to its closed form."""
    grid = itertools.product(fixed("p"), fixed("episodes"))
    return max(abs(regret(curve(p, k)) / closed(p, k) - 1.0) for p, k in grid)


def drawn() -> float:
    """Regret of problems whose episodes are drawn, over the closed form."""
    case = fixed("drawn")
    first = np.random.default_rng(case["seed"]).geometric(case["p"], case["problems"])
    seen = [float(np.mean(first <= k)) for k in range(1, case["episodes"] + 1)]
    return regret(seen) / closed(case["p"], case["episodes"])


def progress() -> float:
    """Regret with more progress an episode over that without."""
    case, episodes = fixed("progress"), fixed("drawn")["episodes"]
    return regret(curve(case["with_bonus"], episodes)) / regret(curve(case["base"], episodes))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"exact": lambda _: exact(), "drawn": lambda _: drawn(), "progress": lambda _: progress()}
