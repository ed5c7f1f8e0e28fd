"""What `tempi.yaml` changes."""

from __future__ import annotations

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import Knobs, served


def _packed(serving: ServingSpec, _: Knobs) -> ServingSpec:
    return serving.model_copy(update={"transfer": serving.transfer.model_copy(update={"pieces": "packed"})})


def applies_to(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    apart = any(pool.role == "decode" for pool in scenario.serving.pools)
    return None if apart else "no cache goes from one instance to another"


serving = ServingPart(settings=_packed)
