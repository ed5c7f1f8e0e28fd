"""Sequence parallelism: norms and residuals are cut along the sequence on the tensor axis.

What it costs: nothing on the wire (an all-reduce becomes a reduce-scatter and an all-gather), but backward gathers each
column GEMM's input again.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"sp": True})


def _applies(scenario: Scenario) -> str | None:
    return None if scenario.plan.tp > 1 else "there is no tensor parallelism"


TECHNIQUE = Technique(
    id="sequence-parallel",
    system="sequence-parallelism",
    family="memory-offload",
    summary="cut the activations that tensor parallelism replicates along the sequence",
    levels=("plan",),
    status="partial",
    edits=(("plan", "sp"),),
    applies_to=_applies,
    plan=_plan,
    saves="replicated activations",
    resource="memory",
    where={
        "megatron_core": "--sequence-parallel",
        "megatron_bridge": "model.sequence_parallel",
        "torchtitan": "parallelism.enable_sequence_parallel",
    },
    missing="the paper's headline claim is not an experiment yet",
)
