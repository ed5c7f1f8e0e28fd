"""From a plan to the program of one training step: devices that are alike, or groups of devices that are not."""

from __future__ import annotations

from typing import Any

from windtunnel.errors import ProblemList
from windtunnel.specs.batches import refuse_lengths
from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.heterogeneous.prepare import prepare_heterogeneous
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.step_setup import PreparedStep, clock_of, prepare_at


def prepare(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    techniques: tuple[Applied, ...] = (),
    problems: ProblemList | None = None,
    *,
    coefficient_overrides: dict[str, Any] | None = None,
    cache: PricingCache | None = None,
) -> PreparedStep:
    """Resolve the plan and build the step program at the clock that the power cap allows.

    `cache` keeps what plans of one call share; the step is the same with and without.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    for technique in techniques:
        plan = technique.on_decision(plan, model, cluster, training)
    if isinstance(cluster, MixedCluster):
        refuse_lengths(training.lengths, "a cluster of unlike groups")
        problems = problems if problems is not None else ProblemList()
        return prepare_heterogeneous(model, cluster, training, plan, techniques, problems, coefficient_overrides, cache)
    clock = clock_of(cluster, training, coefficient_overrides)
    return prepare_at(model, cluster, training, plan, techniques, problems, coefficient_overrides, clock, cache)
