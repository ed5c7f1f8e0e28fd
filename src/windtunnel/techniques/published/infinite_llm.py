"""What `infinite-llm.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    on = {"lending": True, "lending_kept": float(knobs["kept"])}
    return with_pools(serving, lambda pool: {"kv": pool.kv.model_copy(update=on)})


def applies_to(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    pools = scenario.serving.pools
    return None if pools and pools[0].replicas > 1 else "there is one instance: nobody can lend"


serving = ServingPart(settings=_settings)
