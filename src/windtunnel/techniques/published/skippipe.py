"""What `skippipe.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.schedules.skipping import skipping_table
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import ScheduleCase
from windtunnel.techniques.default_plan import zero_stage


def skipped(stages: int, ratio: float) -> int:
    """Stages that a micro-batch skips: the ratio of all, one between always runs."""
    return min(round(ratio * stages), stages - 3) if stages > 3 else 0


def layers_of(depth: int, stages: int, ratio: float) -> tuple[int, ...]:
    """Layers of each stage with which the ends work as much as the stages between do on average."""
    inner = stages - 2
    share = 1.0 - skipped(stages, ratio) / inner
    end = max(min(round(depth * share / (inner + 2 * share)), (depth - inner) // 2), 0)
    base, more = divmod(depth - 2 * end, inner)
    return (end, *(base + (i < more) for i in range(inner)), end)


def decide(
    plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, knobs: dict[str, Any]
) -> PlanSpec:
    if not skipped(plan.pp, knobs["ratio"]) or plan.zero == 3:
        return plan
    update: dict[str, Any] = {"schedule": "1f1b", "vpp": 1}
    if plan.stage_layers is None or len(plan.stage_layers) != plan.pp:
        update["stage_layers"] = layers_of(len(model.layer_kinds()), plan.pp, knobs["ratio"])
    return plan.model_copy(update=update)


def schedule(case: ScheduleCase, knobs: dict[str, Any]) -> ScheduleCase:
    number = skipped(case.p, knobs["ratio"])
    if not number or case.v != 1:
        return case
    return replace(case, own=skipping_table(case.p, case.m, number, case.costs))


def applies_to(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    if zero_stage(scenario) == 3:
        return "under ZeRO-3 gathers and reductions go with the first and the last micro-batch of every stage"
    return None if scenario.plan.pp > 3 else "fewer than four stages leave none to skip"
