"""What `pytorch-fsdp.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.published.zero import applies
from windtunnel.techniques.step_options import StepOptions


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"zero": 3, "reshard_after_forward": knobs["reshard_after_forward"]})


def step(options: StepOptions, knobs: dict[str, Any]) -> StepOptions:
    return replace(options, fsdp_prefetch=knobs["prefetch"], sync_every_micro_batch=not knobs["no_sync"])


applies_to = applies
