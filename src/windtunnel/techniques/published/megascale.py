"""MegaScale: parallel blocks, windowed attention, overlap on every axis, a larger batch, input that nobody waits for.

Each part is a switch. What it costs: smaller products and SMs where exchanges are cut into pieces; what the block, the
window and the batch cost in quality is not predicted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.graph import Block, ModelGraph
from windtunnel.parallel.branches import side_by_side, windowed
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    over = plan.overlap
    if knobs["overlap_tp"] and plan.tp > 1:
        over = over.model_copy(update={"tp": True})
    if knobs["overlap_pp"]:
        over = over.model_copy(update={"p2p": True})
    if knobs["overlap_dp"]:
        over = over.model_copy(update={"grad_reduce": True, "param_gather": True})
    return plan.model_copy(update={"overlap": over, "join_branches": knobs["parallel_block"] or plan.join_branches})


def _graph(graph: ModelGraph, knobs: dict[str, Any]) -> ModelGraph:
    def changed(block: Block) -> Block:
        block = side_by_side(block) if knobs["parallel_block"] else block
        return windowed(block, float(knobs["window"])) if knobs["window"] else block

    return replace(graph, blocks={kind: changed(block) for kind, block in graph.blocks.items()})


def _workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    update: dict[str, Any] = {}
    if knobs["async_input"]:
        update["input_s"] = 0.0
    if knobs["global_batch"]:
        update["global_batch"] = knobs["global_batch"]
    return training.model_copy(update=update)


def _applies(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    plan = scenario.plan
    alone = plan.tp == 1 and plan.pp == 1 and plan.dp == 1
    return "one device exchanges nothing" if alone else None


TECHNIQUE = Technique(
    id="megascale",
    knobs={
        "parallel_block": Knob(True, doc="attention and feed-forward side by side, one exchange for both"),
        "window": Knob(None, 16, 1 << 20, "tokens that a token attends to; absent: all"),
        "overlap_tp": Knob(True, doc="tensor-parallel exchanges in pieces beside products"),
        "overlap_pp": Knob(True, doc="hops between stages beside computation"),
        "overlap_dp": Knob(True, doc="gradients and parameters beside computation"),
        "async_input": Knob(True, doc="batches are ready when a step begins (training.input_s 0)", given=True),
        "global_batch": Knob(None, 1, 1 << 24, "sequences of a step that the LAMB optimizer allows; absent: as given"),
    },
    edits=(("plan", "overlap"), ("graph", "block")),
    applies_to=_applies,
    plan=_plan,
    graph=_graph,
    workload=_workload,
    saves="scale-up",
    quality="parallel blocks and windows are another model, a larger batch another optimizer",
    lossless={"parallel_block": False},
)
