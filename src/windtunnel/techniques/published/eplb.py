"""What `eplb.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import limits_of_placement, served, with_expert_load


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    change = {
        "eplb": True,
        "num_redundant_experts": int(knobs["num_redundant_experts"]),
        "step_interval": int(knobs["step_interval"]),
    }
    return with_expert_load(serving, change)


def applies_to(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    return None if scenario.serving.expert_load else "serving.expert_load does not say how unevenly experts are drawn"


serving = ServingPart(settings=_settings)
limits = limits_of_placement({"device": "h200-sxm-141gb", "nodes": 4, "devices_per_node": 8}, max_num_seqs=4096)
