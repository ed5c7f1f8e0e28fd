"""What all candidates of one cluster share: the model, the cluster, the training, and what was priced already."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.defaults import Setting
from windtunnel.stacks.rules import Runnable, runnable
from windtunnel.techniques.base import Applied
from windtunnel.training.stage_costs.pricing_cache import PricingCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The model, cluster, training and techniques that all candidates share."""

    model: ModelSpec
    cluster: ClusterSpec
    training: TrainingSpec
    techniques: tuple[Applied, ...]
    behaviour: Behaviour
    coefficients: Coefficients
    cache: PricingCache = field(default_factory=PricingCache, compare=False, repr=False)
    """Networks and blocks that were priced for bounds or simulations."""
    phases: tuple[tuple[float, Case], ...] = ()
    """Phases of a run whose steps differ: share of the steps, and the case of each."""

    rewritten: dict[Hashable, tuple[PlanSpec, PlanSpec | None]] = field(default_factory=dict, compare=False, repr=False)
    """Candidates that have been through the techniques → what they share, and the plan (`space.technique_rewrites`)."""

    @property
    def can(self) -> Runnable:
        """What the framework's release can run here."""
        setting = Setting.of(self.training, self.cluster.device, self.model)
        return runnable(self.training.framework, self.training.framework_version, setting)

    @property
    def kinds_of_steps(self) -> tuple[tuple[float, Case], ...]:
        """Share of every kind of step, the steps that no phase claims first."""
        left = 1.0 - sum(share for share, _ in self.phases)
        return ((left, replace(self, phases=())), *self.phases)

    def on(self, cluster: ClusterSpec, *, anew: bool) -> Case:
        """This case on another cluster; `anew`: nothing that was priced holds there."""
        cache = PricingCache() if anew else self.cache
        phases = tuple((share, case.on(cluster, anew=anew)) for share, case in self.phases)
        return replace(self, cluster=cluster, cache=cache, phases=phases, rewritten={})
