"""Attention over several ranks: prompts cut along their tokens, and a cache that the tensor axis shares."""

from __future__ import annotations

from typing import Any

import pytest

import windtunnel as wt
from windtunnel.errors import BadInput
from windtunnel.serving.simulate import prepare
from windtunnel.techniques.limits import FREE, merged

LONG: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "serving": {
        "engine": "vllm",
        "engine_version": "0.11.0",
        "pools": [{"limits": {"max_num_batched_tokens": 131072, "max_num_seqs": 16, "max_model_len": 131072}}],
        "traffic": {"offline": True, "num_requests": 1, "input_tokens": 120000, "output_tokens": 64},
    },
}


def run(**plan: int) -> Any:
    pool = LONG["serving"]["pools"][0] | {"plan": plan}
    return wt.simulate_serving(merged(LONG, {"serving": {"pools": [pool]}}))


def test_prompts_get_faster_by_less_than_the_ranks_and_decodes_read_their_part() -> None:
    runs = {n: run(cp=n) for n in (1, 2, 4, 8)}
    for n in (2, 4, 8):
        assert runs[n].ttft_s.mean < runs[n // 2].ttft_s.mean
        assert runs[n].ttft_s.mean > runs[1].ttft_s.mean / n
        assert runs[n].tpot_s.mean > runs[1].tpot_s.mean / n
        assert runs[n].capacity["tokens"] == pytest.approx(n * runs[1].capacity["tokens"], rel=0.05)
    assert runs[2].tpot_s.mean < runs[1].tpot_s.mean


def test_short_contexts_gain_nothing_in_decode() -> None:
    short = merged(LONG, {"serving": {"traffic": {"input_tokens": 64, "output_tokens": 200}}})
    one, four = (
        wt.simulate_serving(merged(short, {"serving": {"pools": [{"plan": {"cp": n}}]}})).tpot_s.mean for n in (1, 4)
    )
    assert four > one


def test_what_is_gathered_costs_nothing_over_free_links() -> None:
    plan = {"serving": {"pools": [LONG["serving"]["pools"][0] | {"plan": {"cp": 4}}]}}
    slow, free = prepare(merged(LONG, plan)).limits, prepare(merged(merged(LONG, plan), FREE["scale-up"])).limits
    assert free.prompt_token_s < 1e-3 * slow.prompt_token_s
    assert slow.pair_s > free.pair_s > 0.0 and slow.cp == free.cp == 4


def test_a_cache_that_ranks_share_holds_more_and_is_read_sooner() -> None:
    traffic = {"num_requests": 16, "input_tokens": 8000}
    model = {"model": "deepseek-ai/DeepSeek-V2-Lite", "serving": {"traffic": traffic}}
    runs = []
    for dcp in (1, 2, 4):
        pool = {"plan": {"tp": 4, "dcp": dcp}, "limits": {"max_num_seqs": 16}}
        runs.append(wt.simulate_serving(merged(LONG, merged(model, {"serving": {"pools": [pool]}}))))
    tokens = [r.capacity["tokens"] for r in runs]
    assert tokens[1] == pytest.approx(2 * tokens[0], rel=0.01) and tokens[2] == pytest.approx(4 * tokens[0], rel=0.01)
    read = [r.composition["decode iteration"]["cached keys and values"] for r in runs]
    assert read[0] > read[1] > read[2]


def test_what_cannot_be_cut_is_said_in_one_go() -> None:
    pools = [{"plan": {"cp": 2, "dp": 2, "dcp": 3}}]
    bad = merged(LONG, {"model": "google/gemma-3-27b-pt", "serving": {"pools": pools}})
    with pytest.raises(BadInput) as caught:
        wt.simulate_serving(bad)
    text = str(caught.value)
    assert "keep a window or a state" in text and "with dp 2" in text and "must divide the 1 copies" in text


def test_prompts_cut_by_heads_cost_an_exchange_and_decodes_nothing() -> None:
    wide: dict[str, Any] = {
        "model": "deepseek-ai/DeepSeek-V2-Lite",
        "serving": {"traffic": {"input_tokens": 4096, "num_requests": 8}},
    }

    def parts(balanced: bool, *more: dict[str, Any]) -> Any:
        pool = {"plan": {"dp": 8, "ep": 8, "balance_prompts": balanced}, "limits": {"max_num_seqs": 16}}
        scenario = merged(merged(LONG, wide), {"serving": {"pools": [pool]}})
        for one in more:
            scenario = merged(scenario, one)
        return prepare(scenario).iteration

    own, cut, free = parts(False), parts(True), parts(True, FREE["scale-up"])
    assert cut.prefill_token_s > own.prefill_token_s + 1e-9 and cut.prefill_pair_s == own.prefill_pair_s
    assert free.prefill_token_s - own.prefill_token_s < 1e-3 * (cut.prefill_token_s - own.prefill_token_s)
    assert cut.decode_kv_s == own.decode_kv_s
    with pytest.raises(BadInput, match="balance_prompts") as told:
        run(tp=2, balance_prompts=True)
    assert "no ranks share prompts" in str(told.value)
