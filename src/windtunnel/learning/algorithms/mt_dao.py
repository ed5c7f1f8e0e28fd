"""MT-DAO: Adam with slow momenta next to the gradient; slow states survive long rounds.

x ← x − η·((1 − Σω_j)g + Σω_j u_j)/(√v + ε), u_j ← β_j u_j + (1 − β_j)g; parameters, momenta and v are averaged at
periods of their own.

Source: Iacob et al. 2025 (arXiv 2510.05361), a quasi-hyperbolic Adam (Ma and Yarats 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.errors import ProblemList
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, ParameterExchange, StateExchange
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.inner.adamw import AdamW
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.learning.state import LearnerState
from windtunnel.techniques.knobs import Knob

_MAX_MOMENTA = 8


@dataclass(slots=True)
class MultiTimescale(Composed):
    """Local steps with several momenta; `v`, ε and the weight decay are those of the job's AdamW."""

    betas: tuple[float, ...] = (0.999,)
    weights: tuple[float, ...] = (0.95,)
    bias_correction: bool = True

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`."""
        state = Composed.start(self, initial)
        names = (*(f"u{j}" for j in range(len(self.betas))), "v")
        state.inner = {name: np.zeros_like(state.params) for name in names}
        state.extra = {"update": np.empty_like(state.params)}
        return state

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.step`."""
        adam = self.job.inner
        assert isinstance(adam, AdamW)
        lr = self.job.lr.at(step)
        x, v, update = state.params, state.inner["v"], state.extra["update"]
        one = x.dtype.type
        if adam.weight_decay:
            x *= one(1.0 - lr * adam.weight_decay)
        np.multiply(gradients, one(1.0 - sum(self.weights)), out=update)
        for j, (beta, weight) in enumerate(zip(self.betas, self.weights, strict=True)):
            u = state.inner[f"u{j}"]
            u *= one(beta)
            u += gradients * one(1.0 - beta)
            update += u * one(weight / (1.0 - beta ** (step + 1) if self.bias_correction else 1.0))
        np.multiply(gradients, gradients, out=gradients)
        gradients *= one(1.0 - adam.beta2)
        v *= one(adam.beta2)
        v += gradients
        root = np.sqrt(v, out=gradients)
        if self.bias_correction:
            root /= one(sqrt(1.0 - adam.beta2 ** (step + 1)))
        root += one(adam.eps)
        update /= root
        update *= one(lr)
        x -= update


def build(job: Job, knobs: dict[str, Any]) -> MultiTimescale:
    """Momenta with their weights and periods."""
    problems = parts.problems_of("mt-dao")
    if not isinstance(job.inner, AdamW):
        rule = "steps with the second moment of AdamW; allowed: inner optimizer adamw"
        problems.add("", type(job.inner).__name__.lower(), rule)
    betas = _numbers(knobs["betas"], "betas", 0.999999, problems)
    weights = _numbers(knobs["weights"], "weights", 1.0, problems)
    if betas and weights and len(betas) != len(weights):
        problems.add("weights", list(weights), f"needs one weight for each of {len(betas)} betas")
    if sum(weights) > 1.0 + 1e-12:
        problems.add("weights", list(weights), "are shares of the step; allowed: a sum up to 1")
    problems.raise_if_any()
    k = knobs["period"]
    wire = Cast(knobs["bits"])
    periods = {f"u{j}": knobs["period_u"] or k for j in range(len(betas))} | {"v": knobs["period_v"] or k}
    exchange = ParameterExchange(
        compressor=wire,
        outer=Average(1.0),
        period=k,
        states=tuple(StateExchange(name=name, period=each, compressor=wire) for name, each in periods.items()),
        evaluate="mean",
    )
    return MultiTimescale(
        job,
        parameters=exchange,
        clip=knobs["clip"],
        betas=betas,
        weights=weights,
        bias_correction=knobs["bias_correction"],
    )


def _numbers(value: Any, field: str, high: float, problems: ProblemList) -> tuple[float, ...]:
    """One number or a list of a few, from 0 to `high`."""
    several = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    fine = all(isinstance(x, (int, float)) and not isinstance(x, bool) and 0.0 <= x <= high for x in several)
    if not several or not fine or len(several) > _MAX_MOMENTA:
        problems.add(field, value, f"must be 1 to {_MAX_MOMENTA} numbers, each 0 to {high:g}")
        return ()
    return tuple(float(x) for x in several)


ALGORITHMS.add(
    "mt-dao",
    AlgorithmKind(
        id="mt-dao",
        summary="local Adam steps with slow momenta, averaged at periods of their own",
        build=build,
        knobs={
            "period": Knob(32, 1, 1_000_000, "Kx: local steps between averages of parameters"),
            "period_u": Knob(None, 1, 1_000_000, "of momenta; absent: Kx"),
            "period_v": Knob(None, 1, 1_000_000, "of the second moment; absent: Kx"),
            "betas": Knob((0.999,), doc="decay of each momentum"),
            "weights": Knob((0.95,), doc="ω: share of each momentum in a step; the rest is the gradient's"),
            "bias_correction": Knob(True, doc="whether moments are divided by 1 − β^t, as Adam's are"),
            "clip": Knob(0.0, 0.0, 1e9, "largest magnitude of an entry of a gradient; 0: none"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
        },
        family="low-comm",
        source="Iacob et al. 2025 (arXiv 2510.05361)",
    ),
)
