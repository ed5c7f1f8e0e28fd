"""Hybrid data parallelism: a document takes as many ranks as it needs, and work is dealt by time.

Short documents stay on one rank and exchange nothing; the mechanism is `plan.sequence_groups: by_length`. What it
costs: ranks that wait for one another where parameters are sharded (ZeRO-3), since their micro-batches are unlike.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY, limits
from windtunnel.techniques.base import Limits, Paper, Technique
from windtunnel.techniques.limits import merged

CASE = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {
        "seq_len": 131072, "global_batch": 32, "framework": "megatron_core",
        "lengths": {"distribution": "lognormal", "mean": 4000, "cv": 2.5, "batches": 1},
    },
    "plan": {"cp": 16, "mbs": 1, "dp": "auto", "recompute": {"policy": "full"}},
}  # fmt: skip
"""Documents that mostly fit one rank, among rows that need sixteen."""
FREE = {"training": {"lengths": {"distribution": "fixed", "mean": 131072, "cv": 1.0}}}
"""Every document fills a row: groups of one size are what it needs."""
FEW = merged(
    merged(limits.FREE["scale-up"], limits.FREE["scale-out"]),
    {"training": {"global_batch": 2, "lengths": {"mean": 60000, "cv": 0.5, "seed": 1}}},
)
"""A handful of long documents on a network that costs nothing: rows cut them evenly, groups do not come out even."""


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    return plan.model_copy(update={"sequence_groups": "by_length"})


def _applies(scenario: Scenario) -> str | None:
    alike = scenario.training is None or scenario.training.lengths is None
    return "training.lengths is absent: all sequences are alike" if alike else None


TECHNIQUE = Technique(
    id="bytescale",
    family="long-seq",
    summary="as many ranks as a document needs, work dealt to ranks by its time",
    paper=Paper(
        "ByteScale: Efficient Scaling of LLM Training with a 2048K Context Length on More Than 12,000 GPUs",
        2025,
        "https://arxiv.org/abs/2502.21231",
        "Ge and others",
        "arXiv",
    ),
    levels=("plan",),
    status="partial",
    edits=(("plan", "sequence groups"),),
    applies_to=_applies,
    plan=_plan,
    saves="exchange of short documents",
    resource="network",
    experiment="bytescale",
    missing="activations of long documents offloaded to host memory, so that fewer ranks hold them",
    limits=Limits(CASE, free=FREE, vanishes=0.02, costly_scenario=FEW),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
