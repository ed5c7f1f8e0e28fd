"""Gradient buckets reduced while the backward pass still runs (PyTorch DistributedDataParallel)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.step_options import StepOptions


def _step(options: StepOptions, knobs: dict[str, Any]) -> StepOptions:
    return replace(
        options, overlap_grad_reduce=bool(knobs["overlap"]), bucket_bytes=float(knobs["bucket_mb"]) * 1e6,
        sync_every_micro_batch=not knobs["no_sync"],
    )  # fmt: skip


def _applies(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    return None if scenario.plan.dp == "auto" or scenario.plan.dp > 1 else "there is no data parallelism to overlap"


TECHNIQUE = Technique(
    id="pytorch-ddp",
    family="train-parallel",
    summary="reduce gradients in buckets as backward produces them, hiding the all-reduce behind the rest of backward",
    paper=Paper(
        "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020, "https://arxiv.org/abs/2006.15704",
        "Li, Shen and others", "PVLDB 13(12)",
    ),
    levels=("step",),
    knobs={
        "overlap": Knob(True, doc="start each bucket when its gradients are ready"),
        "bucket_mb": Knob(25.0, 0.1, 1e5, "bucket size in MB; DDP's default is 25"),
        "no_sync": Knob(True, doc="reduce only after the last micro-batch"),
    },
    edits=(("step", "grad_reduce"),),
    applies_to=_applies,
    step=_step,
    saves="scale-out",
)  # fmt: skip

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
