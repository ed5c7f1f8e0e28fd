"""Speculative decoding: how many tokens a step makes, what it costs, where it cannot help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.serving.simulate import prepare, simulate_serving
from windtunnel.serving.speculation.base import Drafting, expected_tokens
from windtunnel.serving.speculation.varied import Pace


def scenario(speculation: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """Llama-3.1-70B on four H100, one request after the other unless told otherwise."""
    serving: dict[str, Any] = {
        "engine": "vllm", "engine_version": "0.10.0", "pools": [{"plan": {"tp": 4}}],
        "traffic": {"concurrency": 1, "num_requests": 3, "input_tokens": 512, "output_tokens": 257},
    }  # fmt: skip
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
        "model": "deepseek-ai/DeepSeek-V3", "cluster": {"device": "h200-sxm-141gb", "nodes": 1, "devices_per_node": 8},
        "serving": {"engine": "sglang", "precision": {"weights": "fp8_block"}, "pools": [{"plan": {"tp": 8}}]},
    }  # fmt: skip
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

    drafting = Drafting("mtp", 3, (0.9, 0.6, 0.5), None, variation="step")
    pace = Pace(drafting, 1, 3)
    made = np.array([pace.tokens(Fixed()) for _ in range(20_000)])  # type: ignore[arg-type]
    assert made.mean() == pytest.approx(expected_tokens((0.9, 0.6, 0.5)), rel=0.01)
    assert set(made.tolist()) == {1, 2, 3, 4}


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
