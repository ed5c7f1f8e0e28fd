"""What a technique asks of a plan that the scenario leaves to its framework."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.scenarios.load import load_scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.default_plan import zero_stage


def _scenario(framework: str, **plan: Any) -> Any:
    return load_scenario(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
            "training": {"seq_len": 4096, "global_batch": 16, "framework": framework},
            "plan": plan,
        }
    )


@pytest.mark.parametrize(("framework", "stage"), [("torchtitan", 3), ("deepspeed", 3), ("ddp", 0)])
def test_the_stage_is_the_frameworks_unless_it_is_stated(framework: str, stage: int) -> None:
    assert zero_stage(_scenario(framework)) == stage
    assert zero_stage(_scenario(framework, zero=1)) == 1


def test_techniques_see_the_stage_that_runs() -> None:
    whole, sharded = _scenario("ddp", pp=4), _scenario("torchtitan", pp=4)
    assert REGISTRY.get("fire-flyer").applies_to(whole) is None
    assert "reduced in shards" in (REGISTRY.get("fire-flyer").applies_to(sharded) or "")
    assert REGISTRY.get("skippipe").applies_to(whole) is None
    assert "ZeRO-3" in (REGISTRY.get("skippipe").applies_to(sharded) or "")
    assert REGISTRY.get("frontier-3d").applies_to(whole) is None
    assert "sharded" in (REGISTRY.get("frontier-3d").applies_to(sharded) or "")
