"""Gradient buckets reduced while the backward pass still runs (PyTorch DistributedDataParallel).

What it costs: every bucket starts a collective of its own, and running collectives take SMs and memory bandwidth from
the backward pass. Buckets follow the order in which gradients appear; the copy into a bucket is not counted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.step_options import StepOptions


def _step(options: StepOptions, knobs: dict[str, Any]) -> StepOptions:
    return replace(
        options,
        overlap_grad_reduce=True,
        bucket_bytes=float(knobs["bucket_mb"]) * 1e6,
        reduce_every_micro_batch=not knobs["no_sync"],
    )


def _applies(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.plan.dp == "auto" or scenario.plan.dp > 1 else "there is no data parallelism to overlap"


TECHNIQUE = Technique(
    id="pytorch-ddp",
    knobs={
        "bucket_mb": Knob(25.0, 0.1, 1e5, "bucket size in MB; DDP's default is 25"),
        "no_sync": Knob(True, doc="with several micro-batches, reduce after the last one alone"),
    },
    edits=(("step", "grad_reduce"),),
    applies_to=_applies,
    step=_step,
    saves="scale-out",
    where={
        "ddp": "DistributedDataParallel(bucket_cap_mb=...)",
        "megatron_core": "--overlap-grad-reduce",
        "megatron_bridge": "ddp.overlap_grad_reduce",
    },
)
