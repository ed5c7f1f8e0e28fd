"""Fully sharded data parallelism: layers are gathered before use, freed after, and prefetched (PyTorch FSDP).

What it costs: a gather before each layer's forward and backward; `prefetch` hides it behind the layer before, at the
memory of one more gathered layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zero import applies
from windtunnel.techniques.step_options import StepOptions


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"zero": 3, "reshard_after_forward": knobs["reshard_after_forward"]})


def _step(options: StepOptions, knobs: dict[str, Any]) -> StepOptions:
    return replace(options, fsdp_prefetch=knobs["prefetch"], sync_every_micro_batch=not knobs["no_sync"])


TECHNIQUE = Technique(
    id="pytorch-fsdp",
    knobs={
        "prefetch": Knob(True, doc="gather the next layer while this one runs"),
        "reshard_after_forward": Knob(True, doc="free gathered parameters between forward and backward"),
        "no_sync": Knob(False, doc="reduce gradients after the last micro-batch alone"),
    },
    edits=(("plan", "shard"), ("step", "param_gather")),
    applies_to=applies,
    plan=_plan,
    step=_step,
    saves="replicated state",
    resource="memory",
    where={
        "fsdp1": "FullyShardedDataParallel",
        "torchtitan": "parallelism.data_parallel_shard_degree",
        "megatron_core": "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
    },
)
