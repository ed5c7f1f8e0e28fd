"""Advice changes with the scenario as it should: what is suggested, not by how many seconds."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.advice import Advice, advise
from windtunnel.advice.actions import Action
from windtunnel.advice.bench import TrainingBench
from windtunnel.advice.objectives import chosen
from windtunnel.advice.trial import Trial, trial_of
from windtunnel.errors import BadInput
from windtunnel.serving.simulate import simulate_serving
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.limits import merged
from windtunnel.training.predict import simulate_training


def _tried(scenario: dict[str, Any], *names: str, **knobs: Any) -> dict[str, Trial]:
    """Single trials of some techniques, as the search makes them."""
    base = simulate_training(scenario, sensitivities=False)
    bench = TrainingBench(base, base.scenario)
    out = {}
    for name in names:
        action = Action(name, REGISTRY.get(name), knobs)
        result = bench.run(merged(scenario, {"techniques": [action.entry]}))
        out[name] = trial_of(bench, chosen("time", "training", default="time"), (action,), result)
    return out


TP: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "a100-pcie-40gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 16, "framework": "megatron_core"},
    "plan": {"tp": 8, "overlap": {"tp": False}},
}
BANDWIDTH: dict[str, Any] = {
    "model": "gpt3-13b",
    "cluster": {
        "device": "a100-sxm-80gb",
        "nodes": 4,
        "devices_per_node": 4,
        "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": "100 Gb/s"},
    },
    "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_core"},
    "plan": {"tp": 4, "mbs": 1},
}
FAST = {"cluster": {"scale_out": {"nics_per_node": 4, "nic_bytes_per_s": "1600 Gb/s"}}}
PIPELINE: dict[str, Any] = {
    "model": "gpt3-13b",
    "cluster": {"device": "a100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 2048, "global_batch": 32, "framework": "megatron_core"},
    "plan": {"tp": 2, "pp": 8, "mbs": 1},
}


@pytest.fixture(scope="module")
def slow_links() -> Advice:
    return advise(TP, pairs=False)


def test_overlap_of_tensor_parallelism_first_on_slow_links(slow_links: Advice) -> None:
    first = slow_links.suggestions[0]
    assert first.relieves in ("scale-up", "network") and first.gain > 0.1
    assert "tp-overlap" in {s.names[0] for s in slow_links.suggestions[:2]}
    near = _tried(merged(TP, {"cluster": {"device": "h100-sxm-80gb"}}), "tp-overlap")["tp-overlap"]
    slow = next(s for s in slow_links.suggestions if s.names == ("tp-overlap",))
    assert near.gain < 0.5 * slow.gain


def test_own_framework_first_and_moves_in_the_class_it_relieves(slow_links: Advice) -> None:
    from windtunnel.views.advise import options_text

    one = next(s for s in slow_links.suggestions if s.names == ("tp-overlap",))
    assert options_text(one, "megatron_core") == "megatron_core: --tp-comm-overlap"
    assert options_text(one, "nemo").endswith("(nearest to nemo)")
    assert options_text(one, "jax").startswith("no option of jax is known; ")
    name, before, after = one.moved[0]
    assert name == "exposed tp" and after < before


def test_compression_only_where_bandwidth_binds() -> None:
    slow = _tried(BANDWIDTH, "powersgd")["powersgd"]
    fast = _tried(merged(BANDWIDTH, FAST), "powersgd")["powersgd"]
    assert slow.gain > 0.2 and fast.gain < 0.1 * slow.gain
    assert not slow.like_for_like  # never ranked among what leaves results as they were


def test_bubbles_are_filled_where_there_are_some() -> None:
    few = _tried(PIPELINE, "zb-h1")["zb-h1"]
    many = _tried(merged(PIPELINE, {"training": {"global_batch": 1024}}), "zb-h1")["zb-h1"]
    assert few.gain > 0.02 > many.gain


@pytest.mark.slow
def test_recomputation_and_offloading_where_memory_is_short() -> None:
    tight = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "rtx-4090", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 32, "framework": "fsdp1"},
        "plan": {"zero": 3, "mbs": 1},
    }
    advice = advise(tight)
    assert not advice.fits and advice.memory["activations"] == max(advice.memory.values())
    assert advice.settings[0].names == ("recompute full",) and advice.settings[0].fits
    kind, before, after = advice.settings[0].freed[0]
    assert kind == "activations" and after < 0.2 * before
    assert all(s.fits for s in (*advice.settings, *advice.suggestions, *advice.pairs))
    assert any("recompute full" in s.names and s.gain > advice.settings[0].gain for s in advice.pairs)
    roomy = advise(merged(tight, {"cluster": {"device": "h100-sxm-80gb"}}), pairs=False)
    assert roomy.fits and "recompute full" not in {s.names[0] for s in roomy.settings}
    assert "zero-infinity" in roomy.lost


@pytest.mark.slow
def test_what_changes_the_model_is_kept_apart() -> None:
    advice = advise(BANDWIDTH, pairs=False)
    assert all(not s.quality and not s.adds for s in (*advice.suggestions, *advice.settings))
    assert {"powersgd", "megascale"} <= {s.names[0] for s in advice.unlike}
    assert "megascale" in {s.names[0] for s in advice.suggestions}  # its switches that change no result
    assert all(s.quality or s.adds for s in advice.unlike)
    assert {"zaya-mi300x"} <= set(advice.unfit) and {"lasp", "deepspeed-ted"} <= set(advice.unfit)
    assert advice.best is not None and not advice.best.quality
    assert all("must divide" not in why for name, why in advice.refused.items() if name == "mics")


def _served(name: str, scenario: dict[str, Any]) -> tuple[Any, Any]:
    try:
        return simulate_serving(scenario), simulate_serving(merged(scenario, {"techniques": [name]}))
    except BadInput as error:  # pragma: no cover - says which
        raise AssertionError(str(error)) from None


ONE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "serving": {
        "engine": "vllm",
        "pools": [{"replicas": 2, "plan": {"tp": 4}}],
        "traffic": {"rate_per_s": 3.0, "num_requests": 200, "input_tokens": 3000, "output_tokens": 100, "seed": 1},
    },
}


def test_splitting_roles_pays_for_answers_and_not_for_throughput_of_prompts() -> None:
    before, after = _served("distserve", ONE)
    assert after.tpot_s.mean < before.tpot_s.mean  # answers no longer wait for prompts
    assert after.ttft_s.mean > before.ttft_s.mean  # half of the instances compute prompts


def test_halves_of_a_batch_pay_when_batches_are_large() -> None:
    few = merged(ONE, {"serving": {"traffic": {"rate_per_s": None, "concurrency": 1, "num_requests": 20}}})
    many = merged(ONE, {"serving": {"traffic": {"rate_per_s": None, "concurrency": 128}}})
    gains = []
    for scenario in (few, many):
        before, after = _served("tokenweave", scenario)
        gains.append(after.output_tokens_per_s / before.output_tokens_per_s - 1.0)
    assert gains[1] > 0.03 and gains[0] < gains[1]


DRAFTED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
    "serving": {
        "engine": "vllm",
        "pools": [{"replicas": 1, "plan": {"tp": 1}}],
        "speculation": {"method": "draft", "draft": "meta-llama/Llama-3.2-1B", "tokens": 4, "acceptance": 0.7},
        "traffic": {"concurrency": 1, "num_requests": 10, "input_tokens": 200, "output_tokens": 200, "seed": 1},
    },
}
FULL = {"serving": {"traffic": {"concurrency": 512, "num_requests": 1000}}}


@pytest.mark.slow
def test_drafts_pay_for_one_sequence_and_not_at_saturation() -> None:
    plain = {"serving": {"speculation": None}}
    gains = []
    for scenario in (DRAFTED, merged(DRAFTED, FULL)):
        without = simulate_serving(merged(scenario, plain)).tpot_s.mean
        before, after = _served("dsi", scenario)
        gains.append((without / before.tpot_s.mean - 1.0, before.tpot_s.mean / after.tpot_s.mean - 1.0))
    (alone, hidden), (full, hidden_full) = gains
    assert alone > 0.3 and full < 0.0  # a saturated device has no room for tokens that are thrown away
    assert hidden > hidden_full
    advice = advise(merged(DRAFTED, FULL), objective="tpot", pairs=False)
    assert "no speculation" in {s.names[0] for s in advice.settings}
    assert "dsi" not in {s.names[0] for s in advice.suggestions}  # its verifiers are more hardware


def test_routing_by_prefix_loses_where_nothing_is_shared() -> None:
    apart = merged(ONE, {"serving": {"traffic": {"rate_per_s": 4.0}}})
    before, after = _served("dlpm", apart)
    assert before.prefix_hit_rate == after.prefix_hit_rate == 0.0
    assert after.ttft_s.mean >= before.ttft_s.mean


LONG: dict[str, Any] = {
    "model": "meta-llama/Llama-2-7b-hf",
    "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
    "serving": {
        "engine": "vllm",
        "router": "least_requests",
        "pools": [
            {
                "replicas": 4,
                "plan": {"tp": 1},
                "limits": {"max_num_seqs": 64, "max_model_len": 34000},
                "kv": {"num_blocks": 2500, "block_size": 16},
            }
        ],
        "traffic": {
            "concurrency": 24,
            "num_requests": 60,
            "output_tokens": 200,
            "seed": 2,
            "input_tokens": {"distribution": "lognormal", "mean": 4000, "cv": 2.5, "max": 30000},
        },
    },
}


@pytest.mark.slow
def test_lending_of_caches_wins_where_few_prompts_fill_them_and_not_where_there_is_room() -> None:
    advice = advise(LONG, objective="throughput", pairs=False)
    assert advice.suggestions[0].names == ("infinite-llm",)
    assert advice.suggestions[0].gain > 0.1
    pool = LONG["serving"]["pools"][0] | {"kv": {"num_blocks": 40000, "block_size": 16}}
    before, after = _served("infinite-llm", merged(LONG, {"serving": {"pools": [pool]}}))
    assert after.output_tokens_per_s == pytest.approx(before.output_tokens_per_s, rel=0.02)


SHARED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
    "serving": {
        "engine": "sglang",
        "router": "round_robin",
        "pools": [
            {
                "replicas": 4,
                "plan": {"tp": 1},
                "limits": {"max_model_len": 8192},
                "kv": {"num_blocks": 30000, "block_size": 1},
            }
        ],
        "traffic": {
            "rate_per_s": 8.0,
            "num_requests": 160,
            "input_tokens": 6300,
            "output_tokens": 64,
            "seed": 2,
            "tenants": [{"name": str(i), "shared_prefix_tokens": 6000, "prefixes": 4} for i in range(3)],
        },
    },
}


@pytest.mark.slow
def test_routing_by_prefix_wins_where_prefixes_are_shared_and_caches_hold_few() -> None:
    advice = advise(SHARED, objective="ttft", pairs=False)
    best = advice.suggestions[0]
    assert best.names == ("dlpm",) and best.gain > 1.0
    hits = {name: (before, after) for name, before, after in best.moved}["prefix hits"]
    assert hits[0] < 0.5 < 0.8 < hits[1]
    apart = [{"name": str(i), "shared_prefix_tokens": 0} for i in range(3)]
    before, after = _served("dlpm", merged(SHARED, {"serving": {"traffic": {"tenants": apart}}}))
    assert after.ttft_s.mean > 0.9 * before.ttft_s.mean
