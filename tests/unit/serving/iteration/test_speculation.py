"""Speculative decoding: how many tokens a step makes, what it costs, where it cannot help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.serving.simulate import prepare, simulate_serving
from windtunnel.serving.speculation.acceptance import Pace
from windtunnel.serving.speculation.base import Drafting, expected_tokens
from windtunnel.serving.speculation.orders import ORDERS, Pair


def scenario(speculation: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """Llama-3.1-70B on four H100, one request after the other unless told otherwise."""
    serving: dict[str, Any] = {
        "engine": "vllm",
        "engine_version": "0.10.0",
        "pools": [{"plan": {"tp": 4}}],
        "traffic": {"concurrency": 1, "num_requests": 3, "input_tokens": 512, "output_tokens": 257},
    }
    if speculation is not None:
        serving["speculation"] = speculation
    traffic = {**serving["traffic"], **changes.pop("traffic", {})}
    return {
        "model": "meta-llama/Llama-3.1-70B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "serving": {**serving, "traffic": traffic, **changes.pop("serving", {})},
        **changes,
    }


DRAFT = {"method": "draft", "draft": "meta-llama/Llama-3.2-1B", "tokens": 4, "acceptance": 0.8}


def test_expected_tokens_are_the_published_formula() -> None:
    """Leviathan et al. 2023, equation 1."""
    for a, k in ((0.8, 4), (0.5, 2), (0.9, 7)):
        assert expected_tokens((a,) * k) == pytest.approx((1 - a ** (k + 1)) / (1 - a))
    assert expected_tokens((1.0, 1.0)) == 3.0
    assert expected_tokens((0.0,)) == 1.0
    assert expected_tokens((0.9, 0.5, 0.0, 1.0)) == pytest.approx(1 + 0.9 + 0.45)


def test_time_per_token_is_a_step_over_the_tokens_it_makes() -> None:
    """One request alone: TPOT = (verify + draft) / E, and the parts are what the iteration model says."""
    r = simulate_serving(scenario(DRAFT))
    d = prepare(scenario(DRAFT))
    m = d.iteration
    assert m.step_tokens == 5 and m.drafts is not None
    kv = 512 + 257 / 2
    step = m.seconds(5, kv=kv, sequences=1, decoding=1)
    assert r.tpot_s.mean == pytest.approx(step / r.speculation["accepted_length_mean"], rel=0.005)
    assert r.speculation["accepted_length_mean"] == pytest.approx(expected_tokens((0.8,) * 4), rel=0.02)
    assert r.itl_s.mean == pytest.approx(step, rel=0.02)  # one message a step
    plain = prepare(scenario(None)).iteration
    assert step > plain.seconds(5, kv=kv, sequences=1)
    assert sum(r.composition["decode iteration"].values()) == pytest.approx(step, rel=0.005)


def test_nothing_accepted_only_costs() -> None:
    plain, none = simulate_serving(scenario(None)), simulate_serving(scenario({**DRAFT, "acceptance": 0.0}))
    assert none.tpot_s.mean > 1.05 * plain.tpot_s.mean
    some = simulate_serving(scenario(DRAFT))
    assert some.tpot_s.mean < 0.75 * plain.tpot_s.mean
    assert some.ttft_s.mean > plain.ttft_s.mean  # the draft reads prompts too
    assert some.capacity["tokens"] < plain.capacity["tokens"]  # and keeps weights and a cache


def test_large_batches_gain_less() -> None:
    """Verifying costs FLOPs, which are free while weights are read and dear once products fill the matrix units."""
    gain = {}
    for slots in (1, 512):
        traffic = {"concurrency": slots, "num_requests": 2 * slots, "input_tokens": 32}
        plain, some = (simulate_serving(scenario(s, traffic=traffic)) for s in (None, {**DRAFT, "tokens": 7}))
        gain[slots] = plain.tpot_s.mean / some.tpot_s.mean
    assert gain[1] > 1.3 * gain[512]


def test_lookup_is_free_of_networks() -> None:
    spec = {"method": "ngram", "tokens": 3, "acceptance": 0.4}
    d = prepare(scenario(spec))
    plain = prepare(scenario(None))
    assert d.instance.capacity.tokens == plain.instance.capacity.tokens
    assert d.iteration.drafts is not None
    assert d.iteration.drafts.steps_s.max() == 0.0


def test_more_experts_are_read_to_verify() -> None:
    spec = {"method": "mtp", "tokens": 1, "acceptance": 0.85}
    traffic = {"concurrency": 4, "num_requests": 8, "input_tokens": 100, "output_tokens": 50}
    base = {
        "model": "deepseek-ai/DeepSeek-V3",
        "cluster": {"device": "h200-sxm-141gb", "nodes": 1, "devices_per_node": 8},
        "serving": {"engine": "sglang", "precision": {"weights": "fp8_block"}, "pools": [{"plan": {"tp": 8}}]},
    }
    found = {}
    for name, own in (("plain", None), ("mtp", spec)):
        serving = {**base["serving"], "traffic": traffic} | ({"speculation": own} if own else {})
        found[name] = simulate_serving({**base, "serving": serving})
    experts = {k: r.composition["decode iteration"]["expert weights"] for k, r in found.items()}
    assert 1.6 * experts["plain"] < experts["mtp"] < 2.0 * experts["plain"]  # few tokens share an expert
    gain = found["plain"].tpot_s.mean / found["mtp"].tpot_s.mean
    assert 1.0 < gain < 1.85
    assert 0.005 < found["mtp"].speculation["draft_share_of_decode"] < 0.1


def test_acceptance_of_its_own_for_each_request() -> None:
    """Mean time per token over requests exceeds the one at the mean acceptance: 1/E is convex."""
    traffic = {"num_requests": 60}  # one by one: prompts of others do not stand between
    same = simulate_serving(scenario(DRAFT, traffic=traffic))
    still = simulate_serving(scenario({**DRAFT, "variation": "request", "acceptance_std": 0.0}, traffic=traffic))
    spread = simulate_serving(scenario({**DRAFT, "variation": "request", "acceptance_std": 0.2}, traffic=traffic))
    drawn = simulate_serving(scenario({**DRAFT, "variation": "step", "acceptance_std": 0.0}, traffic=traffic))
    assert still.tpot_s.mean == pytest.approx(same.tpot_s.mean, rel=0.02)
    assert drawn.tpot_s.mean == pytest.approx(same.tpot_s.mean, rel=0.03)
    assert drawn.tpot_s.p99 > 1.03 * drawn.tpot_s.p50
    assert spread.tpot_s.mean > 1.02 * same.tpot_s.mean
    assert any(a["field"] == "serving.speculation.variation" for a in spread.assumed)


def test_draws_have_the_stated_mean() -> None:
    class Fixed:
        index = 0

    drafting = Drafting(method="mtp", tokens=3, acceptance=(0.9, 0.6, 0.5), network=None, variation="step")
    pace = Pace(drafting, 1, 3)
    made = np.array([pace.tokens(Fixed()) for _ in range(20_000)])  # type: ignore[arg-type]
    assert made.mean() == pytest.approx(expected_tokens((0.9, 0.6, 0.5)), rel=0.01)
    assert set(made.tolist()) == {1, 2, 3, 4}


TIGHT = {**DRAFT, "draft": "meta-llama/Llama-3.1-8B", "draft_tp": 1}


def pair(a: float, c: float, k: int, verifiers: int = 1000, **more: float) -> Pair:
    """A model that takes one second, a draft that takes c."""
    one = np.ones(1)
    return Pair(
        tokens=k, acceptance=(a,) * k, first_s=c * one, pass_s=c * one, verify_s=one, verifiers=verifiers, **more
    )  # type: ignore[arg-type]


def seconds_per_token(order: str, own: Pair) -> float:
    chosen = ORDERS.get(order)
    return float(chosen.seconds(own)[0]) / chosen.tokens(own)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_hidden_verification_is_never_slower(k: int) -> None:
    """Timor et al. 2024, theorems 1 and 2: for any draft, against both ways without it."""
    for a in (0.0, 0.1, 0.5, 0.8, 0.95, 0.999):
        for c in (0.01, 0.1, 0.4, 1.0, 3.0):
            found = seconds_per_token("dsi", pair(a, c, k))
            assert found <= min(1.0, seconds_per_token("serial", pair(a, c, k))) * (1 + 1e-9), (a, c)
    exact = 0.1 * (1 + 0.5 * 0.9 / (1 - 0.9**5))  # a = 0.9, c = 0.1, k = 5
    assert seconds_per_token("dsi", pair(0.9, 0.1, 5)) == pytest.approx(exact, rel=1e-6)


def test_verification_is_hidden_as_far_as_there_are_instances() -> None:
    times = [seconds_per_token("dsi", pair(0.95, 0.05, 2, n)) for n in (1, 2, 5, 10, 20)]
    assert times == sorted(times, reverse=True)
    assert times[3] == times[4] < times[2]  # ceil(1 / (2 · 0.05)) = 10 are enough
    drawn = np.random.default_rng(0).geometric(0.05, 200_000) - 1  # tokens kept in a row
    assert times[4] == pytest.approx((1 + 0.1 * np.ceil(drawn / 2)).mean() / (drawn + 1).mean(), rel=0.01)


def test_a_mirrored_draft_costs_what_exceeds_the_last_layers() -> None:
    serial = seconds_per_token("serial", pair(0.8, 0.05, 4))
    hidden = seconds_per_token("mirror", pair(0.8, 0.05, 4, reuse=1.0))
    assert hidden == pytest.approx(serial / 1.2)
    assert hidden * expected_tokens((0.8,) * 4) == pytest.approx(1.0)
    long = pair(0.8, 0.25, 4, reuse=1.0)  # a second of drafting beside half a second of layers
    assert seconds_per_token("mirror", long) * expected_tokens((0.8,) * 4) == pytest.approx(1.5)
    none = pair(0.8, 0.05, 4, reuse=0.0)
    assert seconds_per_token("mirror", none) == pytest.approx(serial)


def test_orders_in_a_scenario() -> None:
    """One request on eight H100: verifiers cost devices and gain time; a draft apart frees the model's memory."""
    apart = {**TIGHT, "order": "mirror", "draft_device": "h100-sxm-80gb"}
    two = {"pools": [{"plan": {"tp": 2}}], "precision": {"weights": "fp8"}}
    plain = simulate_serving(scenario(TIGHT, serving={**two, "speculation": TIGHT}))
    dsi = simulate_serving(scenario(None, serving={**two, "speculation": {**TIGHT, "order": "dsi", "verifiers": 4}}))
    mirror = simulate_serving(scenario(None, serving={**two, "speculation": apart}))
    assert dsi.tpot_s.mean < plain.tpot_s.mean and mirror.tpot_s.mean < plain.tpot_s.mean
    assert (plain.num_devices, dsi.num_devices, mirror.num_devices) == (2, 8, 3)
    assert mirror.capacity["tokens"] > plain.capacity["tokens"]
    assert dsi.speculation["accepted_length_expected"] == pytest.approx(1 / (1 - 0.8))
    with pytest.raises(BadInput, match="verifiers"):
        prepare(scenario(None, serving={**two, "speculation": {**TIGHT, "order": "dsi", "verifiers": 5}}))
    with pytest.raises(BadInput, match="order"):
        prepare(scenario({"method": "mtp", "order": "mirror"}))


def test_problems_are_named() -> None:
    def said(spec: dict[str, Any], **more: Any) -> str:
        with pytest.raises(BadInput) as error:
            prepare(scenario(spec, **more))
        return str(error.value)

    assert "draft" in said({"method": "draft", "tokens": 2})
    assert "Llama-3.2-1B" in said({"method": "draft", "draft": "meta-llama/Llama-3.2-1"})
    assert "one value for each of 3 tokens" in said({"method": "mtp", "tokens": 3, "acceptance": [0.5]})
    assert "from 0 to 1" in said({"method": "mtp", "acceptance": 1.2})
    assert "not read by method ngram" in said({"method": "ngram", "draft_tp": 2})
    assert "must not exceed tp 4" in said({**DRAFT, "draft_tp": 8})


def test_what_is_not_stated_is_listed() -> None:
    found = {a["field"]: a for a in simulate_serving(scenario({"method": "eagle", "tokens": 3})).assumed}
    assert "2401.15077" in found["serving.speculation.acceptance"]["why"]
