"""SimpleFSDP: one compiled graph of computation and collectives, gathers moved ahead as far as memory allows.

What it costs: a gathered layer more for each layer that a gather is moved ahead.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Knob, Technique
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
)
