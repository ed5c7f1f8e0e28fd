"""`serve` and `export` hold a scenario to the rules of its engine's release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api, catalog
from windtunnel.errors import BadInput
from windtunnel.exporters.servers.launch import server_files
from windtunnel.serving.engine_defaults import legal_limits
from windtunnel.serving.engine_defaults.legal import _plan_facts
from windtunnel.specs.serving import PoolSpec


def scenario(engine: str = "vllm", model: str = "meta-llama/Llama-3.1-8B", **pool: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "model": model,
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1},
        "serving": {
            "engine": engine,
            "pools": [pool],
            "traffic": {"rate_per_s": 2, "num_requests": 8, "input_tokens": 100, "output_tokens": 10},
        },
    }


def refused(data: dict[str, Any]) -> list[str]:
    with pytest.raises(BadInput) as caught:
        api.simulate_serving(data)
    return [problem.field for problem in caught.value.problems]


def test_limits_that_vllm_refuses_are_refused_with_their_values() -> None:
    limits = {"max_num_seqs": 1024, "max_num_batched_tokens": 512}
    assert refused(scenario(limits=limits)) == ["serving.pools[0].limits.max_num_batched_tokens"]
    assert api.simulate_serving(scenario("sglang", limits=limits)).completed == 8, "SGLang has no such rule"


def test_all_problems_come_at_once() -> None:
    limits = {"max_num_seqs": 1024, "max_num_batched_tokens": 512}
    data = scenario(plan={"tp": 8}, kv={"block_size": 24}, limits=limits)
    assert refused(data) == ["serving.pools[0].limits.max_num_batched_tokens", "serving.pools[0].kv.block_size"]


def test_what_an_engine_takes_otherwise_is_an_assumption() -> None:
    data = scenario(model="Qwen/Qwen3-30B-A3B", plan={"tp": 4, "ep": 2})
    assumed = {one["field"]: one["why"] for one in api.simulate_serving(data).assumed}
    assert "takes another value" in assumed["serving.pools[0].plan.ep"]


def test_a_rule_that_a_switch_lifts_is_an_assumption_and_no_launch_file() -> None:
    data = scenario(limits={"max_model_len": 1_000_000}, kv={"num_blocks": 100_000})
    assumed = {one["field"]: one["why"] for one in api.simulate_serving(data).assumed}
    assert "VLLM_ALLOW_LONG_MAX_MODEL_LEN" in assumed["serving.pools[0].limits.max_model_len"]
    with pytest.raises(BadInput, match="max_model_len"):
        server_files(data, "vllm", None, "none")


def test_pairs_of_limits_are_legal_alone_or_together() -> None:
    able = legal_limits("vllm", (), {}, (8, 1024), (512, 1024))
    np.testing.assert_array_equal(able, [[True, True], [False, True]])
    assert legal_limits("generic", (), {}, (8, 1024), (512,)).all()


def test_sizes_that_rules_compare() -> None:
    pool = PoolSpec.model_validate({"plan": {"tp": 4, "dp": 3}})
    facts = _plan_facts(pool, catalog.model("Qwen/Qwen3-30B-A3B"))  # four key/value heads
    assert (facts["plan.ranks"], facts["plan.devices"], facts["plan.ranks_a_kv_head"]) == (12, 12, 1)
    assert facts["plan.attention_dp"] is True and facts["plan.context_parallel"] is False and facts["plan.dcp"] is None
