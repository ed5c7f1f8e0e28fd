"""Expert load balancing: hot experts get copies, and all are placed so that ranks get as many tokens as each other.

Switches `serving.expert_load.eplb` on. The mechanism is in `cost/expert_load.py`: popularity follows Zipf's law, copies
and places are chosen by these loads. What it costs: memory of the copies, their weights read, and moving experts to new
places every `step_interval` iterations.

Sources: DeepSeek-AI 2024 (V3 report), section 3.4.1: 32 redundant experts in prefill; deepseek-ai/EPLB; vLLM 0.9,
`--enable-eplb` with a step interval of 3,000. Placement knows the loads exactly; in truth they are those of the last
interval.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import limits_of_placement, served, with_expert_load


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    change = {
        "eplb": True,
        "num_redundant_experts": int(knobs["num_redundant_experts"]),
        "step_interval": int(knobs["step_interval"]),
    }
    return with_expert_load(serving, change)


def _applies(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    return None if scenario.serving.expert_load else "serving.expert_load does not say how unevenly experts are drawn"


TECHNIQUE = Technique(
    id="eplb",
    system="deepseek-v3",
    family="moe",
    summary="copies of hot experts, and experts placed by load, so that no rank is waited for",
    levels=("run",),
    status="partial",
    missing="loads that drift between two placements, groups of experts that stay on a node",
    knobs={
        "num_redundant_experts": Knob(32, 0, 4096, "copies beside one of each expert, over all ranks"),
        "step_interval": Knob(3000, 1, 1 << 20, "iterations between two placements"),
    },
    edits=(("run", "experts"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    experiment="sglang_wide_ep",
    saves="waiting for the rank with most tokens",
    resource="imbalance",
    where={"vllm": "--enable-eplb", "sglang": "--enable-eplb"},
    limits=limits_of_placement({"device": "h200-sxm-141gb", "nodes": 4, "devices_per_node": 8}, max_num_seqs=4096),
)
