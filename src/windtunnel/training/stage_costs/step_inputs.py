"""What the virtual stages of a step are priced from, next to the plan."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.stage_costs.pricing_cache import PricingCache


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInputs:
    """Everything that a resolved plan is priced with. The step is the same whatever the cache holds."""

    model: ModelSpec
    cluster: ClusterSpec
    """The devices that run these stages; of a cluster with several groups, one group."""
    training: TrainingSpec
    coefficients: Coefficients
    """Coefficients of the device and the framework, at the clock that the power cap allows."""
    behaviour: Behaviour
    """Defaults of the framework in this precision."""
    techniques: tuple[Applied, ...] = ()
    """All techniques that act, those that the framework switches on among them."""
    cache: PricingCache
    """Networks and blocks that earlier plans have priced; taken from there, and added to."""
