"""What `redco.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel import graph
from windtunnel.graph import Batch
from windtunnel.parallel.sharding import COLUMN, ROW, chain_of, two_rules
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec

_HAND = {
    "qkv": COLUMN,
    "proj": ROW,
    "fc1": COLUMN,
    "fc2": ROW,
    "cross_q": COLUMN,
    "cross_kv": COLUMN,
    "cross_proj": ROW,
}


def matches(model: ModelSpec) -> bool:
    """Whether the rules split every dense block as hand-written tensor parallelism does."""
    blocks = graph.build(model, Batch.train(1, 128)).blocks
    for block in blocks.values():
        rules = two_rules(chain_of(block))
        known = {name: rule for name, rule in rules.items() if name in _HAND}
        if not known or any(_HAND[name] is not rule for name, rule in known.items()):
            return False
    return True


def decide(
    plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, knobs: dict[str, Any]
) -> PlanSpec:
    if model.num_attention_heads % knobs["mesh"] or not matches(model):
        return plan
    return plan.model_copy(update={"tp": knobs["mesh"]})


def applies_to(scenario: Scenario) -> str | None:
    return None if scenario.training is not None else "it acts on training steps"
