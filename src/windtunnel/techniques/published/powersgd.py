"""PowerSGD: two thin factors of every gradient matrix, by one power step from where the last one ended.

What it costs: three products that read or write the gradient, an orthogonalisation a matrix, memory for what was lost.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Paper, Technique
from windtunnel.techniques.compressing import EDITS, ETHERNET, FEW_BYTES, QUALITY, applies, with_gradients
from windtunnel.techniques.limits import FREE


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    given = GradientCompression(kind="low_rank", rank=knobs["rank"], error_feedback=knobs["error_feedback"])
    return with_gradients(plan, given)


TECHNIQUE = Technique(
    id="powersgd",
    family="compression",
    summary="gradients as products of two thin factors, which all-reduces can add",
    paper=Paper(
        "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization",
        2019,
        "https://arxiv.org/abs/1905.13727",
        "Vogels, Karimireddy, Jaggi",
        "NeurIPS 2019",
    ),
    levels=("plan",),
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
    experiment="powersgd",
    limits=Limits(
        ETHERNET,
        free=FEW_BYTES,
        vanishes=0.02,
        costly_scenario=FREE["network"],
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
