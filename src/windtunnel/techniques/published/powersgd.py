"""PowerSGD: two thin factors of every gradient matrix, by one power step from where the last one ended.

What it costs: three products that read or write the gradient, an orthogonalisation a matrix, memory for what was lost.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.compressing import EDITS, LIMITS, QUALITY, applies, with_gradients


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(kind="low_rank", rank=knobs["rank"], error_feedback=knobs["error_feedback"])
    return with_gradients(plan, given)


TECHNIQUE = Technique(
    id="powersgd",
    algorithm="powersgd",
    knobs={
        "rank": Knob(4, 1, 1024, "columns of the factors"),
        "error_feedback": Knob(True, doc="what was lost is added to the next gradient"),
    },
    edits=EDITS,
    applies_to=applies,
    plan=_plan,
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    where={"ddp": "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook (matrix_approximation_rank)"},
    limits=LIMITS,
)
