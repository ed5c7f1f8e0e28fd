"""What `megascale.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.graph import Block, ModelGraph
from windtunnel.parallel.branches import side_by_side, windowed
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec


def plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    over = plan.overlap
    if knobs["overlap_tp"] and plan.tp > 1:
        over = over.model_copy(update={"tp": True})
    if knobs["overlap_pp"]:
        over = over.model_copy(update={"p2p": True})
    if knobs["overlap_dp"]:
        over = over.model_copy(update={"grad_reduce": True, "param_gather": True})
    return plan.model_copy(update={"overlap": over, "join_branches": knobs["parallel_block"] or plan.join_branches})


def graph(graph: ModelGraph, knobs: dict[str, Any]) -> ModelGraph:
    def changed(block: Block) -> Block:
        block = side_by_side(block) if knobs["parallel_block"] else block
        return windowed(block, float(knobs["window"])) if knobs["window"] else block

    return replace(graph, blocks={kind: changed(block) for kind, block in graph.blocks.items()})


def workload(training: TrainingSpec, knobs: dict[str, Any]) -> TrainingSpec:
    update: dict[str, Any] = {}
    if knobs["async_input"]:
        update["input_s"] = 0.0
    if knobs["global_batch"]:
        update["global_batch"] = knobs["global_batch"]
    return training.model_copy(update=update)


def applies_to(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    plan = scenario.plan
    alone = plan.tp == 1 and plan.pp == 1 and plan.dp == 1
    return "one device exchanges nothing" if alone else None
