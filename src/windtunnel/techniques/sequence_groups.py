"""What techniques share that decide how many ranks a document of a training batch takes: hook, reason, limit cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Level, Limits
from windtunnel.techniques.limits import FREE, merged

EDITS: tuple[tuple[Level, str], ...] = (("plan", "sequence groups"),)
MANY_SHORT: Mapping[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {
        "seq_len": 131072,
        "global_batch": 32,
        "framework": "megatron_core",
        "lengths": {"distribution": "lognormal", "mean": 4000, "cv": 2.5, "batches": 1},
    },
    "plan": {"cp": 16, "mbs": 1, "dp": "auto", "recompute": {"policy": "full"}},
}
"""Documents that mostly fit one rank, among rows that need sixteen."""
FULL_ROWS: Mapping[str, Any] = {"training": {"lengths": {"distribution": "fixed", "mean": 131072, "cv": 1.0}}}
"""Every document fills a row: groups of one size are what it needs."""
FEW_LONG: Mapping[str, Any] = merged(
    merged(FREE["scale-up"], FREE["scale-out"]),
    {"training": {"global_batch": 2, "lengths": {"mean": 60000, "cv": 0.5, "seed": 1}}},
)
"""A handful of long documents on a network that costs nothing: rows cut them evenly, groups do not come out even."""


def grouped(kind: Literal["by_length", "solved", "zones"]) -> Callable[[PlanSpec, dict[str, Any]], PlanSpec]:
    """A hook that sets `plan.sequence_groups`."""
    return lambda plan, _: plan.model_copy(update={"sequence_groups": kind})


def unlike(scenario: Scenario) -> str | None:
    """Why such a technique does not apply; None where documents differ in length."""
    alike = scenario.training is None or scenario.training.lengths is None
    return "training.lengths is absent: all sequences are alike" if alike else None


def limits_of_groups(vanishes: float) -> Limits:
    """It gains among short documents, not where all fill a row, and loses where a few long ones are uneven.

    Args:
        vanishes: share of the step up to which solving or moving may cost where nothing is gained.
    """
    return Limits(scenario=MANY_SHORT, free=FULL_ROWS, vanishes=vanishes, costly_scenario=FEW_LONG)
