"""What `pytorch-ddp.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.step_options import StepOptions


def step(options: StepOptions, knobs: dict[str, Any]) -> StepOptions:
    return replace(
        options,
        overlap_grad_reduce=True,
        bucket_bytes=float(knobs["bucket_mb"]) * 1e6,
        reduce_every_micro_batch=not knobs["no_sync"],
    )


def applies_to(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.plan.dp == "auto" or scenario.plan.dp > 1 else "there is no data parallelism to overlap"
