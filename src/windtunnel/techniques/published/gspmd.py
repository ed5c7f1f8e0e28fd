"""GSPMD: annotations on a few tensors become a partitioned program, on nested meshes of any number of axes.

Weights are split over both axes of a mesh, activations over one of them in each direction: tensor parallelism on one, a
sharded copy of the weights on the other. Pipelining is a buffer that shifts by one stage a tick, forward and then
backward. How annotations spread is in `parallel.sharding.propagate`. What it costs: gathers of weights, and with stages
the whole bubble, since every stage computes in every tick.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    update: dict[str, Any] = {"tp": knobs["model"], "sp": knobs["model"] > 1, "dp": "auto"}
    if knobs["shard_weights"]:
        update |= {"zero": 3, "shard_group": None}
    if knobs["stages"] > 1:
        over = plan.overlap.model_copy(update={"p2p": False})
        rounds = knobs["rounds"]
        schedule = "breadth_first" if rounds > 1 else "gpipe"
        update |= {"pp": knobs["stages"], "vpp": rounds, "schedule": schedule, "overlap": over}
    return plan.model_copy(update=update)


def _applies(scenario: Scenario) -> str | None:
    return None if scenario.training is not None else "it acts on training steps"


TECHNIQUE = Technique(
    id="gspmd",
    knobs={
        "model": Knob(8, 1, 4096, "ranks of the mesh axis that splits features (tp)"),
        "shard_weights": Knob(True, doc="weights split over the other axis too, gathered before use"),
        "stages": Knob(1, 1, 4096, "stages of the shifting buffer"),
        "rounds": Knob(1, 1, 64, "times that a micro-batch passes the buffer"),
    },
    edits=(("plan", "layout"), ("plan", "experts"), ("plan", "shard"), ("schedule", "order")),
    applies_to=_applies,
    plan=_plan,
    saves="memory",
    where={"jax": "sharding annotations (with_sharding_constraint)"},
)
