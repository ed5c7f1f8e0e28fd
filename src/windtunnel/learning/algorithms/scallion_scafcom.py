"""SCALLION and SCAFCOM: SCAFFOLD whose clients upload one vector, which may be compressed.

Both differences of SCAFFOLD follow from δ_i = C(α·((a − x)/(Kη) − c)), which is half its uplink: c_i ← c_i + δ_i,
a ← a − νKη(⟨δ⟩ + c), c ← c + (m/n)⟨δ⟩. With α = 1 and no compressor that is SCAFFOLD. Client and server both know δ_i
as it was received, so what a compressor leaves out stays in the next (a − x)/(Kη) − c: no other feedback is needed. A
compressor of variance ω·‖v‖² asks for an α (`scaling`) of at most 1/(1 + ω), or controls overshoot.

With `momentum` β below 1 (SCAFCOM, for biased compressors) a client uploads C(α·(v_i − c_i)), where
v_i ← (1 − β)v_i + β(its mean gradient of the round); β = 1 is SCALLION.

Source: Huang, Li and Li 2024 (arXiv 2308.08165), algorithms 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.scaffold import KNOBS, Scaffold
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.learning.state import LearnerState
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True, kw_only=True)
class Scallion(Scaffold):
    """With momentum, `state.extra["momenta"]` holds v_i, shape (workers, params)."""

    momentum: float = 1.0
    """β: share of the round's mean gradient in what a client uploads."""
    scaling: float = 1.0
    """α."""

    def start(self, initial: Reals) -> LearnerState:
        """Controls and momenta begin at 0."""
        state = Scaffold.start(self, initial)
        if self.momentum < 1.0:
            state.extra["momenta"] = np.zeros_like(state.extra["controls"])
        return state

    def end_round(self, state: LearnerState, step: int) -> None:
        """One vector of each client arrives; the server's step follows from it."""
        assert state.anchor is not None
        changes = self.control_changes(state, step)
        one = changes.dtype.type
        if self.momentum < 1.0:
            controls, momenta = state.extra["controls"][self.clients], state.extra["momenta"]
            kept = momenta[self.clients] * one(1.0 - self.momentum) + one(self.momentum) * (changes + controls)
            momenta[self.clients] = kept
            changes = kept - controls
        changes *= one(self.scaling)
        received = self.upload.decoded(changes, self.job.shapes, self.job.draws, self.clients, step)
        rates = sum(self.job.lr.at(at) for at in range(step + 1 - self.local_steps, step + 1))
        moved = (received.mean(axis=0, keepdims=True) + state.extra["control"]) * one(rates)
        self.outer.step(state.anchor, moved, state.outer, step // self.local_steps)
        self.keep_controls(state, received)


def build(job: Job, knobs: dict[str, Any]) -> Scallion:
    """One vector up, two down.

    Raises:
        BadInput: a biased compressor without momentum.
    """
    problems = parts.problems_of("scallion-scafcom")
    upload = parts.compressor_of(knobs, problems)
    if not upload.unbiased and knobs["momentum"] == 1.0:
        rule = f"is SCALLION, whose compressors are unbiased, and {upload.id} is not; allowed: below 1 (SCAFCOM)"
        problems.add("momentum", knobs["momentum"], rule)
    problems.raise_if_any()
    return Scallion(
        job=job,
        local_steps=knobs["local_steps"],
        outer=Average(knobs["server_lr"]),
        inner=SGD(),
        active=knobs["active"],
        upload=upload,
        copies_down=2.0,
        momentum=knobs["momentum"],
        scaling=knobs["scaling"],
    )


ALGORITHMS.add(
    "scallion-scafcom",
    AlgorithmKind(
        id="scallion-scafcom",
        summary="SCAFFOLD with one, compressed, vector up",
        build=build,
        knobs={
            **KNOBS,
            "momentum": Knob(1.0, 1e-6, 1.0, "β: 1 is SCALLION, less is SCAFCOM"),
            "scaling": Knob(1.0, 1e-6, 1.0, "α: share of a control's change that is uploaded"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of an uploaded value where no compressor is named"),
            "compressor": Knob(None, doc="of uploads: id of a compressor, or {id: {knob: value}}"),
        },
        family="fl-edge",
        source="Huang, Li and Li 2024 (arXiv 2308.08165), algorithms 2 and 3",
    ),
)
