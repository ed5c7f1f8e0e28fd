"""What `zaya-mi300x.yaml` changes."""

from __future__ import annotations

from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.scenario import Scenario


def applies_to(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    own = isinstance(scenario.cluster, ClusterRef) and scenario.cluster.device == "mi300x"
    return "the devices are MI300X already" if own else None
