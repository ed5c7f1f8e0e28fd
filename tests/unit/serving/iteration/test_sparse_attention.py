"""Sparse attention by an indexer: long contexts get cheaper, short ones do not, and nothing is free."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.serving.simulate import prepare, simulate_serving
from windtunnel.specs.model import ModelSpec


def scenario(model: str | dict[str, Any], tokens: int = 1000, **serving: Any) -> dict[str, Any]:
    """One request at a time on eight H200."""
    return {
        "model": model,
        "cluster": {"device": "h200-sxm-141gb", "nodes": 1, "devices_per_node": 8},
        "serving": {
            "engine": "sglang",
            "precision": {"weights": "fp8_block"},
            "pools": [{"plan": {"tp": 8}}],
            "traffic": {"concurrency": 1, "num_requests": 2, "input_tokens": tokens, "output_tokens": 20},
            **serving,
        },
    }


DENSE, SPARSE = "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.2"


def test_fields_are_checked() -> None:
    fields = catalog.model(SPARSE).model_dump(exclude_none=True)
    with pytest.raises(ValueError, match="index_head_dim"):
        ModelSpec.model_validate({**fields, "index_head_dim": 0})
    with pytest.raises(ValueError, match="latent"):
        ModelSpec.model_validate({**catalog.model("Qwen/Qwen3-8B").model_dump(), "index_topk": 2048})


def test_long_prompts_and_contexts_are_cheaper() -> None:
    """Ranks of the tensor axis repeat the indexer, ranks of attention data parallelism do not."""
    apart = [{"plan": {"dp": 8, "ep": 8}}]
    traffic = {"concurrency": 8, "num_requests": 16, "input_tokens": 120_000, "output_tokens": 200}
    found = {m: simulate_serving(scenario(m, pools=apart, traffic=traffic)) for m in (DENSE, SPARSE)}
    assert found[SPARSE].ttft_s.mean < 0.8 * found[DENSE].ttft_s.mean
    assert found[SPARSE].tpot_s.mean < found[DENSE].tpot_s.mean


def test_short_ones_pay_for_the_indexer() -> None:
    found = {m: simulate_serving(scenario(m, 500)) for m in (DENSE, SPARSE)}
    assert found[SPARSE].ttft_s.mean > found[DENSE].ttft_s.mean
    assert found[SPARSE].tpot_s.mean > found[DENSE].tpot_s.mean
    assert found[SPARSE].capacity["tokens"] < found[DENSE].capacity["tokens"]  # keys of the indexer, its weights
    per_token = found[SPARSE].capacity["bytes_per_token"] - found[DENSE].capacity["bytes_per_token"]
    assert per_token == 61 * (128 + 4)


def test_a_step_reads_keys_of_all_tokens_and_latents_of_the_best() -> None:
    d = prepare(scenario(SPARSE))
    m, a = d.iteration, d.iteration.attention
    assert (m.window, d.limits.window) == (2048, 2048)
    assert m.window_kv_s == a.decode_window_s > 3 * a.decode_kv_s
    dense = prepare(scenario(DENSE)).iteration.attention
    assert a.decode_window_s == dense.decode_kv_s  # a picked token costs what every token did
    grows = m.seconds(1, kv=100_000, window_kv=2048) - m.seconds(1, kv=50_000, window_kv=2048)
    assert grows == pytest.approx(50_000 * a.decode_kv_s)


def test_a_prompt_takes_the_shorter_form() -> None:
    """Below some length every pair is attended to; beyond, each token takes as long as the picked ones do."""
    limits = prepare(scenario(SPARSE)).limits
    assert 2048 < limits.reach < 8 * 2048  # absorbed pairs take longer than plain ones
    apart = prepare(scenario(SPARSE, pools=[{"plan": {"dp": 8, "ep": 8}}])).limits
    assert 0.0 < 4 * apart.index_share < limits.index_share < 1.0
