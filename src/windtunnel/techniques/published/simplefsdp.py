"""SimpleFSDP: one compiled graph of computation and collectives, gathers moved ahead as far as memory allows.

What it costs: a gathered layer more for each layer that a gather is moved ahead.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique
from windtunnel.techniques.published.zero import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"zero": 3, "gathered_layers": knobs["gathered_layers"]})


def _workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    return training.model_copy(update={"compile": True})


TECHNIQUE = Technique(
    id="simplefsdp",
    knobs={"gathered_layers": Knob(2, 1, 64, "layers that are gathered at a time")},
    edits=(("plan", "shard"), ("plan", "compile")),
    applies_to=applies,
    plan=_plan,
    workload=_workload,
    saves="element-wise traffic",
    resource="memory bandwidth",
    where={"torchtitan": "the simple_fsdp experiment"},
    limits=Limits(
        scenario={
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
            "training": {"seq_len": 8192, "global_batch": 32, "framework": "torchtitan", "compile": False},
            "plan": {"mbs": 1, "zero": 3},
        },
        free={"training": {"compile": True}},  # nothing is left to compile
        costly={"gathered_layers": 1},
        costly_scenario={
            "cluster": {"scale_out": {"nics_per_node": 1, "nic_bytes_per_s": "100 Gb/s"}},
            "training": {"compile": True},
        },
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
