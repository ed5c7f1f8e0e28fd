"""Sequence parallelism: norms and residuals are cut along the sequence on the tensor axis.

What it costs: nothing on the wire (an all-reduce becomes a reduce-scatter and an all-gather), but backward gathers each
column GEMM's input again.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Limits, Technique


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
    limits=Limits(
        scenario={
            "model": "gpt3-13b",
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
            "training": {"seq_len": 2048, "global_batch": 8, "framework": "megatron_core"},
            "plan": {"tp": 8, "mbs": 4, "sp": False},
        },
        measure="peak_memory_allocated_bytes",
        pays="step_time_s",
        # two collectives start where one did, which a short micro-batch shows
        costly_scenario={"training": {"seq_len": 512, "global_batch": 1, "cuda_graphs": "full"}, "plan": {"mbs": 1}},
        free={"plan": {"tp": 1}, "training": {"global_batch": 32}},  # nothing is replicated
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
