"""Scenarios with several pools: what is refused, how caches move, what each pool's figures say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.exporters import perfetto_serving
from windtunnel.serving.deployment import prepare
from windtunnel.serving.simulate import simulate_serving
from windtunnel.views import serve

SPLIT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
    "serving": {
        "engine": "vllm",
        "engine_version": "0.11.0",
        "pools": [{"role": "prefill", "replicas": 2}, {"role": "decode", "plan": {"tp": 2}}],
        "traffic": {"rate_per_s": 6, "num_requests": 200, "input_tokens": 1500, "output_tokens": 60, "seed": 3},
    },
}


def scenario(**serving: Any) -> dict[str, Any]:
    """The same with other settings of the section."""
    return SPLIT | {"serving": SPLIT["serving"] | serving}


@pytest.mark.parametrize(
    ("serving", "field", "rule"),
    [
        ({"pools": [{"role": "prefill"}]}, "serving.pools[0].role", "needs a pool with role decode"),
        ({"pools": [{}, {"role": "decode"}]}, "serving.pools[1].role", "needs a pool with role prefill"),
        ({"pools": [{"replicas": 9}, {"replicas": 9}]}, "serving.pools", "summed over pools, = 18"),
        ({"pools": [{"group": 3}]}, "serving.pools[0].group", "must be one of 0"),
        ({"pools": [{}], "transfer": {"mode": "layers"}}, "serving.transfer.mode", "leave it out"),
        ({"transfer": {"mode": "layers", "reserve_first": False}}, "serving.transfer.reserve_first", "must be true"),
        ({"transfer": {"router": "kv_aware"}}, "serving.transfer.router", "built-in rules alone"),
        (
            {"pools": [{"role": "prefill"}, {"role": "decode", "kv": {"block_size": 32}}]},
            "serving.pools[1].kv.block_size",
            "must be 16",
        ),
    ],
)
def test_what_cannot_be_served_is_said(serving: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(BadInput) as caught:
        prepare(scenario(**serving))
    assert any(p.field == field and rule in str(p) for p in caught.value.problems), caught.value


def test_pools_are_counted_apart_and_add_up() -> None:
    r = simulate_serving(SPLIT)
    assert r.completed == 200
    assert r.num_devices == 4
    first, second = r.pools
    assert (first["role"], second["role"]) == ("prefill", "decode")
    assert first["decode_tokens_per_s"] == 0.0 == second["prompt_tokens_per_s"]
    assert first["prompt_tokens_per_s"] * r.duration_s == pytest.approx(200 * 1500)
    # vLLM computes a prompt's last token again where it answers, so that every token comes from there
    assert second["decode_tokens_per_s"] * r.duration_s == pytest.approx(200 * 60)
    assert r.power["energy_j"] == pytest.approx(first["power"]["energy_j"] + second["power"]["energy_j"])
    assert r.cost_per_million_output_tokens == pytest.approx(sum(p["cost_per_million_output_tokens"] for p in r.pools))
    assert set(r.composition) == {"with prompts", "decode only"} or len(r.composition) == 2
    assert r.transfer["requests"] == 200
    assert any(a["field"] == "serving.transfer.first_token" and a["value"] == "decode" for a in r.assumed)


def test_first_token_conventions() -> None:
    """The same run: the first token comes with the prompt's end, with the cache, or a step later."""
    found = {}
    for first in ("prefill", "transfer", "decode"):
        r = simulate_serving(scenario(transfer={"first_token": first}))
        found[first] = r.ttft_s.mean
    assert found["transfer"] - found["prefill"] > 0.9 * r.transfer["after_prompt_s"]["mean"]
    assert found["decode"] - found["transfer"] == pytest.approx(r.tpot_s.mean, rel=0.2)


@pytest.mark.slow
def test_caches_move_at_the_rate_of_their_links() -> None:
    """Near instances use NVLink, far ones the ports of their nodes; layers that leave early leave one to wait for."""
    near = prepare(SPLIT).kv_transfer
    apart = [{"role": "prefill", "plan": {"tp": 8}}, {"role": "decode", "plan": {"tp": 8}}]
    far = prepare(scenario(pools=apart)).kv_transfer
    assert near is not None and far is not None
    token = 32 * 2 * 8 * 128 * 2  # bytes: layers, keys and values, heads, width, 16 bits
    assert token / near.token_s[0, 0, 2] == pytest.approx(450e9 * 0.824, rel=0.02)  # one device sends all
    assert token / far.token_s[0, 0, 1] == pytest.approx(8 * 50e9 * 0.96, rel=0.02)
    whole = simulate_serving(scenario(pools=apart, transfer={"control_s": 0.0}))
    layers = simulate_serving(scenario(pools=apart, transfer={"control_s": 0.0, "mode": "layers"}))
    assert layers.transfer["moving_s"]["p50"] < 0.1 * whole.transfer["moving_s"]["p50"]


def test_mixed_pools_of_unlike_devices_behind_one_router() -> None:
    cluster = {"groups": [{"device": "h100-sxm-80gb"}, {"device": "a100-sxm-80gb"}], "between": "8 x infiniband-hdr"}
    pools = [{"group": "h100-sxm-80gb", "replicas": 2}, {"group": 1, "replicas": 2}]
    mixed = scenario(pools=pools, router="least_work", traffic=SPLIT["serving"]["traffic"] | {"rate_per_s": 40})
    r = simulate_serving(mixed | {"cluster": cluster})
    fast, slow = r.pools
    assert fast["device"] == "h100-sxm-80gb"
    assert slow["device"] == "a100-sxm-80gb"
    assert fast["requests"] > slow["requests"] > 0
    assert fast["requests"] + slow["requests"] == 200
    assert not r.transfer
    pools = [{"role": "prefill", "group": 0}, {"role": "decode", "group": 1, "replicas": 2}]
    split = simulate_serving(scenario(pools=pools) | {"cluster": cluster})
    assert split.completed == 200
    assert split.transfer["moving_s"]["p50"] > 1500 * 32 * 2 * 8 * 128 * 2 / 25e9  # one port of 200 Gb/s each
    with pytest.raises(BadInput, match="is required: the cluster has the groups"):
        prepare(SPLIT | {"cluster": cluster})


def test_reports_of_several_pools() -> None:
    r = simulate_serving(SPLIT)
    assert "Pools" in [section.title for section in serve.view(r).sections]
    events = perfetto_serving.trace_events(r)
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"prefill instance 0", "prefill instance 1", "decode instance 0"}
    assert any(e["name"] == "cache moves" for e in events)
    series = r.series_frame(50)
    assert series["running"].mean() == pytest.approx(r.running_mean, rel=0.1)
    tokens = (series["output_tokens_per_s"] * np.gradient(series["time_s"])).sum()
    assert tokens == pytest.approx(200 * 60, rel=0.05)


def test_answers_that_give_way_go_to_host_memory_where_the_engine_keeps_them() -> None:
    small = {"role": "decode", "kv": {"num_blocks": 30_000}}
    traffic = SPLIT["serving"]["traffic"] | {"rate_per_s": 40, "output_tokens": 800}
    told = {"engine": "sglang", "engine_version": "0.5.1", "pools": [{"role": "prefill", "replicas": 4}, small]}
    r = simulate_serving(scenario(**told, traffic=traffic))
    assert r.completed == 200
    assert r.preemptions > 0
    assert any(a["field"] == "serving.pools[1].kv.swap_space_bytes" for a in r.assumed)
    decode = r.pools[1]
    assert decode["prompt_tokens_per_s"] * r.duration_s == pytest.approx(r.preemptions)  # one token each, not prompts


def test_a_result_draws_itself() -> None:
    figure = simulate_serving(SPLIT).figure()
    titles = " ".join(c.title for c in figure.charts)
    assert all(word in titles for word in ("TTFT", "TPOT", "E2E", "requests", "cache"))
    assert set(figure.charts[3].series) == {"running", "waiting"}
