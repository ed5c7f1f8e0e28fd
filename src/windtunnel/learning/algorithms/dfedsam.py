"""DFedSAM: local sharpness-aware steps, then Q averages with neighbours in a graph (DFedSAM-MGS where Q is above 1).

A local step takes the gradient of the same batch at x + ρ·g/‖g‖ instead of x: two gradients a step, which the clock
counts as one. Clients take plain SGD steps, whatever optimizer the scenario names. Each exchange lowers the distance to
the mean by |λ₂|^Q.

Source: Shi et al. 2023 (arXiv 2302.04083), algorithms 1 and 2; Foret et al. 2021, Sharpness-aware minimization.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.gossip import Gossip
from windtunnel.learning.algorithms.gossip import build as build_gossip
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Task
from windtunnel.techniques.knobs import Knob

_SGD = SGD()


@dataclass(slots=True, kw_only=True)
class GossipOfSharpnessAware(Gossip):
    """A `LockStepAlgorithm` that takes its own gradients."""

    rho: float

    @property
    def step_work(self) -> float:
        """Two gradients a step, one where ρ is 0."""
        return 2.0 if self.rho else 1.0

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """Gradients of the same batches twice: at x, and at x + ρ·g/‖g‖. Losses are those at x."""
        steps = np.full(len(out), step)
        losses = task.gradients(state.params, self.job.everyone, steps, out)
        if not self.rho:
            return losses
        norms = np.sqrt(np.einsum("wp,wp->w", out, out, dtype=np.float64))
        out *= (self.rho / np.maximum(norms, 1e-300)).astype(out.dtype)[:, None]
        out += state.params
        task.gradients(out.copy(), self.job.everyone, steps, out)
        return losses

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Plain SGD."""
        _SGD.step(state.params, gradients, {}, self.job.lr.at(step), step)


def build(job: Job, knobs: dict[str, Any]) -> GossipOfSharpnessAware:
    """Metropolis weights on the graph."""
    plain = build_gossip(job, {name: value for name, value in knobs.items() if name != "rho"})
    given = {field.name: getattr(plain, field.name) for field in fields(plain) if not field.name.startswith("_")}
    return GossipOfSharpnessAware(**given, rho=knobs["rho"])


ALGORITHMS.add(
    "dfedsam",
    AlgorithmKind(
        id="dfedsam",
        summary="local sharpness-aware steps, then averages with neighbours in a graph",
        build=build,
        knobs={
            "graph": Knob("ring", doc="id of a graph: ring, torus, hypercube, complete"),
            "period": Knob(5, 1, 1_000_000, "K: local steps between exchanges"),
            "rounds": Knob(1, 1, 1000, "Q: averages of an exchange"),
            "rho": Knob(0.05, 0.0, 100.0, "ρ: how far the gradient is looked for, in the direction of ascent"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
        },
        family="fl-edge",
        source="Shi et al. 2023 (arXiv 2302.04083), algorithms 1 and 2",
    ),
)
