"""Where nobody names a stage of ZeRO, plans have the framework's own, as a step without a plan has."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.planner.result import PlanResult
from windtunnel.training.predict import prepare


def _plan(scenario: dict[str, Any]) -> dict[str, Any]:
    found = api.plan(scenario)
    assert isinstance(found, PlanResult)
    assert found.best is not None
    return dict(found.best.plan)


@pytest.mark.parametrize("framework", ["megatron_core", "deepspeed", "torchtitan", "ddp"])
def test_plan_and_step_agree(framework: str) -> None:
    scenario = {
        "model": "meta-llama/Llama-3.2-1B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 16, "framework": framework},
    }
    space = {"tp": [1], "pp": [1], "cp": [1], "mbs": [1], "recompute": ["none"]}
    planned = _plan(scenario | {"search": {"space": space}})["zero"]
    prepared, _ = prepare(scenario | {"plan": {"tp": 1, "pp": 1, "mbs": 1}})
    assert planned == prepared.plan.zero


def test_a_framework_without_sharding_may_be_given_some() -> None:
    """Trainer's own stage is 0, of which a 14B model does not fit; a search finds the stage that does."""
    scenario = {
        "model": "Qwen/Qwen3-14B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 8, "framework": "megatron_2022"},
        "search": {"space": {"tp": [2], "pp": [1], "cp": [1], "mbs": [1], "recompute": ["full"]}},
    }
    assert _plan(scenario)["zero"] == 1
