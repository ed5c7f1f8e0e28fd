"""From a plan to the program of one training step: devices that are alike, or groups of devices that are not."""

from __future__ import annotations

from typing import Any

from windtunnel.catalog.framework_plan import with_framework_plan
from windtunnel.errors import ProblemList
from windtunnel.specs.batches import refuse_lengths
from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.heterogeneous.prepare_groups import prepare_heterogeneous
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.step_setup import PreparedStep, StepRequest, clock_of, prepare_at


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

    Args:
        model: What is trained.
        cluster: Devices and networks that it is trained on.
        training: The workload.
        plan: How the work is laid over the devices; what it leaves open is decided here.
        techniques: Published systems that act on the step.
        problems: Problems that were found so far; they are reported with those of the plan.
        coefficient_overrides: Coefficients that replace those of the catalogue, by name.
        cache: Prices that several steps share; the step is the same with and without.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    plan, training = decided_plan(plan, training, cluster, model, techniques)
    request = StepRequest(
        model=model,
        cluster=cluster,
        training=training,
        plan=plan,
        techniques=techniques,
        problems=problems if problems is not None else ProblemList(),
        coefficient_overrides=coefficient_overrides,
        cache=cache if cache is not None else PricingCache(),
    )
    if isinstance(cluster, MixedCluster):
        refuse_lengths(training.lengths, "a cluster of unlike groups")
        return prepare_heterogeneous(request)
    return prepare_at(request, clock_of(cluster, training, coefficient_overrides))


def decided_plan(
    plan: PlanSpec, training: TrainingSpec, cluster: ClusterSpec, model: ModelSpec, techniques: tuple[Applied, ...]
) -> tuple[PlanSpec, TrainingSpec]:
    """A plan and a workload whose open fields are what the framework's release and then the techniques set."""
    plan, training = with_framework_plan(plan, training, cluster, model)
    for technique in techniques:
        plan = technique.on_decision(plan, model, cluster, training)
    return plan, training
