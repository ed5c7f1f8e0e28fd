"""Half of the uplink of SCAFFOLD, and its very trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned

EXPERIMENT = Experiment(__name__, "scallion-scafcom")
fixed = EXPERIMENT.fixed


def _built(id: str) -> Any:
    kind = ALGORITHMS.get(id)
    knobs = {name: knob.default for name, knob in kind.knobs.items()} | {"local_steps": fixed("period")}
    job = Job(workers=4, steps=100, shapes=((1000,),), inner=SGD(), lr=LearningRate(0.1), draws=Draws(1))
    return kind.build(job, knobs)


def uplink_share() -> float:
    """Bytes that a client sends up in a round over those of SCAFFOLD."""
    up = []
    for id in ("scallion-scafcom", "scaffold"):
        messages = [m for step in range(fixed("period")) for m in _built(id).messages(step)]
        up.append(sum(m.nbytes(((1000,),)) for m in messages if m.kind == "to_server"))
    return float(up[0] / up[1])


def largest_difference() -> float:
    """Largest relative difference of losses to those of SCAFFOLD, without compression."""
    section = {
        "task": {fixed("task"): {"dtype": "float64"}},
        "workers": fixed("clients"),
        "steps": fixed("steps"),
        "batch": 16,
        "inner": "sgd",
        "split": {"dirichlet": fixed("dirichlet")},
        "algorithms": [{id: {"local_steps": fixed("period")}} for id in ("scallion-scafcom", "scaffold")],
    }
    mine, other = learned(section).curves
    return float(np.max(np.abs(mine.loss - other.loss) / np.abs(other.loss)))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "uplink": lambda v: uplink_share(),
        "equal": lambda v: largest_difference(),
    }
