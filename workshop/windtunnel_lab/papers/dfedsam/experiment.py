"""Consensus and messages of several gossip rounds."""

from __future__ import annotations

import numpy as np

from windtunnel.learning.mixing import GRAPHS
from windtunnel.learning.mixing._matrices import metropolis
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def _consensus(rounds: int) -> float:
    """Contraction of the slowest mode of disagreement on the ring by one exchange of so many gossip rounds."""
    n = fixed("workers")
    matrix = metropolis(GRAPHS.get("ring").edges(n), n)
    mode = np.cos(2 * np.pi * np.arange(n) / n)[:, None]
    mixed = np.linalg.matrix_power(np.asarray(matrix), rounds) @ mode
    return float(np.linalg.norm(mixed) / np.linalg.norm(mode))


def contraction() -> float:
    """Logarithm of the contraction of Q rounds over Q times that of one."""
    q = fixed("rounds")
    return float(np.log(_consensus(q)) / (q * np.log(_consensus(1))))


def message_ratio() -> float:
    """Bytes of a step with Q gossip rounds over those with one."""
    target = Target(step_s=1.0, layers=stated_layers(1e6, 1))

    def nbytes(rounds: int) -> float:
        messages = messages_on_target("gossip", {"rounds": rounds}, target, fixed("workers"), 1)
        return sum(m.nbytes(target.shapes) * m.degree for m in messages(0))

    return nbytes(fixed("rounds")) / nbytes(1)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "consensus": lambda v: contraction(),
        "messages": lambda v: message_ratio(),
    }
