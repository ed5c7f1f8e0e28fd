"""ZeRO: optimizer state, gradients and parameters are cut over the data-parallel ranks.

What it costs: from stage 3 on, every layer's parameters are gathered before use, forward and backward.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"zero": knobs["stage"]})


def applies(scenario: Scenario) -> str | None:
    """Sharding needs replicas."""
    if scenario.training is None:
        return "it acts on training steps"
    return "there is one replica" if scenario.plan.dp == 1 and scenario.plan.cp == 1 else None


TECHNIQUE = Technique(
    id="zero",
    knobs={"stage": Knob(3, 1, 3, "what is sharded")},
    edits=(("plan", "shard"),),
    applies_to=applies,
    plan=_plan,
    saves="replicated state",
    resource="memory",
    where={
        "deepspeed": "zero_optimization.stage",
        "megatron_core": "1: --use-distributed-optimizer; 2, 3: --use-megatron-fsdp --data-parallel-sharding-strategy",
        "megatron_bridge": "1: ddp.use_distributed_optimizer; 2, 3: ddp.data_parallel_sharding_strategy",
        "torchtitan": "3: parallelism.data_parallel_shard_degree",
    },
)
