"""Hybrid sharding: full shards inside a small group, replicas between groups (MiCS; hybrid shard of FSDP).

What it costs: state is cut over the group only, and gradients take a second all-reduce between groups.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zero import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"zero": 3, "shard_group": knobs["group"]})


TECHNIQUE = Technique(
    id="mics",
    knobs={"group": Knob(8, 1, 4096, "ranks that share one copy of the state; divides dp times cp")},
    edits=(("plan", "shard"),),
    applies_to=applies,
    plan=_plan,
    saves="scale-out",
    where={
        "deepspeed": "zero_optimization.mics_shard_size",
        "torchtitan": "parallelism.data_parallel_replicate_degree with data_parallel_shard_degree",
    },
)
