"""Assumptions that pages offer to state: every value is accepted, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.scenarios.load import fields_of
from windtunnel.studio.explicit import explicit_values

EXAMPLES = Path(__file__).parents[3] / "examples"
QUICK = ("serving.traffic.num_requests=100", "serving.traffic.warmup_requests=10")


@pytest.mark.parametrize(
    ("name", "call", "figure", "quick", "least"),
    [
        ("llama3-70b-64xh100.yaml", api.simulate_training, "step_time_s", (), 13),
        ("does-not-fit-70b-8xh100.yaml", api.simulate_training, "step_time_s", (), 4),
        ("qwen3-30b-a3b-16xh100-moe.yaml", api.simulate_training, "step_time_s", (), 9),
        ("serving/chat-llama3-70b-8xh100.yaml", api.simulate_serving, "ttft_s", QUICK, 6),
    ],
)
def test_what_was_assumed_can_be_stated(
    name: str, call: Callable[..., Any], figure: str, quick: tuple[str, ...], least: int
) -> None:
    path = EXAMPLES / name
    result = call(path, overrides=quick).to_dict()
    offered = explicit_values(result["assumed"], fields_of(path, ())[0], result.get("plan"))
    assert len(offered) >= least
    for field, value in offered.items():
        stated = call(path, overrides=(*quick, f"{field}={json.dumps(value)}")).to_dict()
        assert stated[figure] == result[figure], field
        assert field not in [one["field"] for one in stated["assumed"]]


def assumed(field: str, value: Any) -> list[dict[str, Any]]:
    """One assumption."""
    return [{"field": field, "value": value, "why": ""}]


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("serving.engine_version", "newest known"),
        ("run.failures", "1 of 1 rates drawn anew in each replication"),
        ("plan.overlap.tp", "in bulk"),
        ("serving.pools[0].kv.block_size", "16"),
        ("serving.replicas", "4"),
    ],
)
def test_words_that_name_no_value_are_not_offered(field: str, told: str) -> None:
    assert explicit_values(assumed(field, told), {"serving": {}}, None) == {}


def test_words_become_values() -> None:
    pools = {"serving": {"pools": [{"replicas": 1}]}}
    assert explicit_values(assumed("serving.pools[0].kv.block_size", "16"), pools, None) == {
        "serving.pools[0].kv.block_size": 16
    }
    assert explicit_values(assumed("plan.sp", "on"), {}, None) == {"plan.sp": True}
    assert explicit_values(assumed("plan.stage_layers", "4 each"), {}, {"stage_layers": [4, 4]}) == {
        "plan.stage_layers": [4, 4]
    }
    fp16 = {"training": {"framework": "megatron_core", "precision": "fp16"}}
    assert explicit_values(assumed("training.grad_reduce_precision", "16 bit"), fp16, None) == {
        "training.grad_reduce_precision": "fp16"
    }
