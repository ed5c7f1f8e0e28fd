"""Prompts and answers on shares of the SMs: what is conserved, what slows down, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import windtunnel as wt
from windtunnel.errors import BadInput
from windtunnel.serving.batching import POLICIES
from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.sm_share import on_sm_share
from windtunnel.serving.routers import ROUTERS
from windtunnel.serving.side_by_side import serve_side_by_side
from windtunnel.serving.simulate import prepare, serve_requests, with_traffic
from windtunnel.techniques.limits import merged

BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
    "serving": {
        "engine": "vllm",
        "engine_version": "0.10.0",
        "pools": [{"replicas": 2, "sm_split": {"prefill_share": 0.6}}],
        "traffic": {
            "rate_per_s": 20,
            "num_requests": 300,
            "input_tokens": {"distribution": "lognormal", "mean": 1500},
            "output_tokens": {"distribution": "lognormal", "mean": 120},
        },
    },
}


def run(**changes: Any) -> Any:
    return wt.simulate_serving(merged(BASE, {"serving": changes}))


@pytest.mark.parametrize(
    "traffic",
    [
        {"rate_per_s": 4},
        {"rate_per_s": 60},
        {"rate_per_s": None, "concurrency": 16},
        {
            "sessions": {
                "turns": {"distribution": "fixed", "mean": 3},
                "think_time_s": 1.0,
            }
        },
    ],
)
def test_every_request_is_answered_in_order_and_littles_law_holds(traffic: dict[str, Any]) -> None:
    result = run(traffic=traffic)
    q = result.record.requests
    assert (q.state == DONE).all() and result.completed == len(q.input_tokens)
    assert (q.arrival_s <= q.scheduled_s).all() and (q.scheduled_s < q.first_token_s).all()
    assert (q.first_token_s <= q.finish_s).all()
    inside = float((q.finish_s - q.scheduled_s).sum())
    assert result.running_mean * result.duration_s == pytest.approx(inside, rel=1e-6)
    assert result.kv_cache_usage_max <= 1.0


def test_a_small_cache_is_never_overfilled_and_everything_ends() -> None:
    pools = [{"replicas": 1, "sm_split": {}, "kv": {"num_blocks": 600}}]
    result = run(pools=pools, traffic={"input_tokens": 900, "output_tokens": 300, "num_requests": 60})
    assert result.completed == 60 and result.preemptions > 0 and result.kv_cache_usage_max <= 1.0


def test_fewer_sms_are_slower_and_all_of_them_change_nothing() -> None:
    d = prepare(BASE)
    layers = Layers(d.model, d.cluster, d.instance.shape, d.iteration.coefficients, d.serving.expert_skew)
    whole = on_sm_share(layers, d.iteration, 1.0).iteration
    np.testing.assert_allclose(whole.linear.seconds, d.iteration.linear.seconds)
    times = [on_sm_share(layers, d.iteration, s).iteration for s in (1.0, 0.7, 0.4, 0.1)]
    prompts = [t.seconds(4096, pairs=8e6, prompt_tokens=4096) for t in times]
    steps = [t.seconds(8, kv=2e4, sequences=8) for t in times]
    assert prompts == sorted(prompts) and prompts[2] > 2.0 * prompts[0]
    assert steps[1] < 1.1 * steps[0] and steps[3] > 2.0 * steps[0]  # few SMs keep memory busy, a tenth does not


def test_answers_do_not_wait_for_prompts_but_both_share_the_memory() -> None:
    plain = {"pools": [{"replicas": 2, "policy": "vllm_v0", "kv": {"prefix_caching": False}}]}
    mixed, split = run(**plain), run()
    assert split.tpot_s.mean < mixed.tpot_s.mean and split.ttft_s.mean > mixed.ttft_s.mean
    alone = run(traffic={"rate_per_s": 0.5, "num_requests": 30})
    assert split.tpot_s.mean > alone.tpot_s.mean


def test_the_share_follows_the_objectives() -> None:
    tight = {"ttft_s": 0.2, "tpot_s": 1.0}
    fixed = run(slo=tight, pools=[{"replicas": 2, "sm_split": {"prefill_share": 0.2}}], traffic={"rate_per_s": 12})
    moving = run(
        slo=tight,
        pools=[{"replicas": 2, "sm_split": {"prefill_share": 0.2, "controller": "slo", "period_s": 1.0}}],
        traffic={"rate_per_s": 12},
    )
    assert moving.ttft_s.mean < fixed.ttft_s.mean and moving.slo_attainment >= fixed.slo_attainment


def test_what_it_does_not_go_with_is_said_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        pool = {"plan": {"pp": 2}, "sm_split": {"controller": "slo"}}
        run(pools=[pool], speculation={"method": "ngram", "tokens": 2})
    text = str(caught.value)
    assert "stands with pp 1" in text and "speculation" in text and "needs serving.slo.ttft_s and tpot_s" in text


@pytest.mark.parametrize("router", ROUTERS.list())
def test_every_router_works_beside_shares(router: str) -> None:
    assert run(router=router, traffic={"num_requests": 20}).completed == 20


@pytest.mark.parametrize("policy", POLICIES.list())
@pytest.mark.parametrize("queue", ["vtc", "srtf", "priority_trace"])
def test_every_policy_forms_batches_of_prompts_in_a_small_cache(policy: str, queue: str) -> None:
    pools = [{"replicas": 1, "sm_split": {}, "kv": {"num_blocks": 400}, "policy": policy, "queue": queue}]
    result = run(pools=pools, traffic={"input_tokens": 900, "output_tokens": 200, "num_requests": 30})
    assert result.completed == 30
    assert result.itl_s.count == 30 * 199  # those of requests that were preempted too


def test_prompts_find_what_was_computed_before() -> None:
    talk = {"sessions": {"turns": {"distribution": "fixed", "mean": 3}, "think_time_s": 1.0}}

    def served(**kv: Any) -> Any:
        return run(traffic=talk, pools=[{"replicas": 1, "sm_split": {}, "kv": {"num_blocks": 3000, **kv}}])

    tiers = [{"kind": "host", "capacity_bytes": 5e10}]
    without, plain, more = served(prefix_caching=False), served(), served(tiers=tiers)
    assert more.ttft_s.mean < plain.ttft_s.mean < without.ttft_s.mean
    assert not without.record.requests.cached_tokens.any() and plain.record.requests.cached_tokens.any()


def test_pools_with_and_without_shares_serve_together_and_instances_come_with_load() -> None:
    both = run(pools=[{"replicas": 1, "sm_split": {}}, {"replicas": 1}], router="round_robin")
    assert both.completed == 300 and both.record.requests.instance.sum() == 150
    grown = run(
        pools=[{"replicas": 1, "sm_split": {}}],
        autoscale={"min": 1, "max": 2, "target": 4, "interval_s": 1, "start_up_s": 1},
    )
    assert grown.completed == 300 and grown.scaling["instances_max"] == 2
    assert grown.ttft_s.mean < run(pools=[{"replicas": 1, "sm_split": {}}]).ttft_s.mean


def test_another_model_beside_them_changes_nothing() -> None:
    shares = prepare(merged(BASE, {"serving": {"pools": [{"replicas": 1, "sm_split": {}}]}}))
    whole = prepare(merged(BASE, {"serving": {"pools": [{"replicas": 1}]}}))
    shares, traffic = with_traffic(shares)
    sent = traffic.requests
    sent.pool = (np.arange(len(sent)) % 2).astype(np.int32)
    columns = ("arrival_s", "input_tokens", "output_tokens")
    half = Requests(**{name: getattr(sent, name)[::2].copy() for name in columns})
    beside, _ = serve_side_by_side([shares, whole], sent)
    serve_requests(shares, half)
    np.testing.assert_array_equal(beside.record.requests.finish_s, half.finish_s)


def test_requests_that_are_too_many_are_shed() -> None:
    kept = run(pools=[{"replicas": 1, "sm_split": {}, "admission": "max_waiting"}], traffic={"rate_per_s": 80})
    assert 0 < kept.completed < 300


def test_shares_beyond_all_sms_leave_none_idle() -> None:
    """Limits of MPS: a phase alone runs at its own limit; both together are never faster than apart."""
    idle = {"rate_per_s": 0.5, "num_requests": 30}
    own, most = {"prefill_share": 0.8}, {"prefill_share": 0.8, "decode_share": 1.0}
    apart, together = (run(traffic=idle, pools=[{"replicas": 2, "sm_split": s}]) for s in (own, most))
    assert together.ttft_s.mean == pytest.approx(apart.ttft_s.mean, rel=0.02)
    assert together.tpot_s.mean < 0.8 * apart.tpot_s.mean  # a fifth of the SMs does not keep memory busy
    whole = run(traffic=idle, pools=[{"replicas": 2, "sm_split": {"prefill_share": 1.0, "decode_share": 1.0}}])
    plain = run(traffic=idle, pools=[{"replicas": 2, "kv": {"prefix_caching": False}}])
    assert whole.e2e_s.mean == pytest.approx(plain.e2e_s.mean, rel=0.03)


def test_an_iteration_holds_no_more_than_its_share() -> None:
    d = prepare(BASE)
    layers = Layers(d.model, d.cluster, d.instance.shape, d.iteration.coefficients, d.serving.expert_skew)
    for share in (1.0, 0.6, 0.2):
        p = on_sm_share(layers, d.iteration, share)
        m = p.iteration
        for tokens in (1.0, 64.0, 4096.0):
            prompt_s = tokens**2 / 2 * m.prefill_pair_s
            seconds = m.seconds(tokens, pairs=tokens**2 / 2, prompt_tokens=tokens)
            assert p.sms(tokens, seconds, prompt_s, 0.0) <= share + 1e-9
            step_s = m.seconds(tokens, kv=1000 * tokens, sequences=tokens)
            assert 0.0 < p.sms(tokens, step_s, 0.0, 1000 * tokens * m.decode_kv_s) <= share + 1e-9


def test_prompts_on_all_sms_need_a_share_for_answers() -> None:
    with pytest.raises(BadInput, match="decode_share"):
        run(pools=[{"sm_split": {"prefill_share": 1.0}}])
