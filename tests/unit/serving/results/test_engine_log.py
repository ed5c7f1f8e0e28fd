"""What engines log at their start: weights with padding, caches of layers of several kinds counted the engine's way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windtunnel.errors import Infeasible
from windtunnel.serving.deployment import Pool, prepare
from windtunnel.serving.results.engine_log import engine_log

GIB = float(1 << 30)


def pool(model: str, device: str, version: str, count: int = 1, engine: str = "vllm", **parts: dict) -> Pool:
    """The only pool of a deployment."""
    scenario = {
        "model": model,
        "cluster": {"device": device, "nodes": 1, "devices_per_node": count},
        "serving": {
            "engine": engine,
            "engine_version": version,
            "pools": [{"plan": {"tp": count}, "limits": parts.get("limits", {}), "kv": parts.get("kv", {})}],
            "traffic": {"rate_per_s": 1, "input_tokens": 100, "output_tokens": 10, "num_requests": 1},
            **parts.get("serving", {}),
        },
    }
    return prepare(scenario).pools[0]


def at_cache(of: Pool, gib: float) -> Pool:
    """The same pool with a cache of so many bytes, where a log states what was available."""
    return replace(of, instance=replace(of.instance, capacity=replace(of.instance.capacity, cache_bytes=gib * GIB)))


def test_gpt_oss_does_not_start_on_one_h100() -> None:
    # vllm-project/vllm issue 23278: 65.97 GiB of weights, -2.14 GiB for the cache
    with pytest.raises(Infeasible, match=r"less weights 65\.\d+, .* leaves -2\.[012]\d GiB"):
        pool("openai/gpt-oss-120b", "h100-sxm-80gb", "0.10.1")
    with pytest.raises(Infeasible, match=r"less weights 64\.3"):  # issue 33155: 64.38 GiB
        pool("openai/gpt-oss-120b", "h100-sxm-80gb", "0.14.1")


def test_mixed_checkpoints_keep_attention_in_16_bits() -> None:
    # vllm-project/vllm issue 6746: 57.75 GiB a device, with 16 key/value heads where today's file has 8
    short = {"max_model_len": 4096}
    log = engine_log(pool("meta-llama/Llama-3.1-405B-Instruct-FP8", "h100-sxm-80gb", "0.5.3", 8, limits=short))
    assert log.weights_gib == pytest.approx(57.75, rel=0.03)
    whole = engine_log(pool("meta-llama/Llama-3.1-70B-Instruct-FP8", "h100-sxm-80gb", "0.5.3", 8, limits=short))
    assert whole.weights_gib == pytest.approx(67.72 / 8, rel=0.03)


@pytest.mark.parametrize(
    ("tokens", "concurrency", "cache_gib", "of"),
    [
        # vllm-project/vllm issue 40691: blocks are shared out to four groups of layers
        (
            290_864,
            33.04,
            1487 * 784 * 65536 / GIB,
            ("Qwen/Qwen3.5-27B", "h20-sxm-96gb", "0.19.0", 1, {"limits": {"max_model_len": 32768, "max_num_seqs": 16}}),
        ),
        # noonghunna/club-3090 issue 612: tokens follow from the concurrency, two states a sequence
        (
            567_978,
            4.33,
            5.98,
            (
                "Qwen/Qwen3.5-35B-A3B",
                "rtx-5090",
                "0.24.0",
                1,
                {
                    "limits": {"max_model_len": 131072, "max_num_seqs": 1, "max_num_batched_tokens": 8192},
                    "kv": {"prefix_caching": True},
                    "serving": {"precision": {"weights": "nvfp4", "kv_cache": "fp8"}},
                },
            ),
        ),
    ],
)
def test_hybrid_caches_are_counted_the_engines_way(
    tokens: int, concurrency: float, cache_gib: float, of: tuple
) -> None:
    log = engine_log(at_cache(pool(*of[:4], **of[4]), cache_gib))
    assert log.kv_tokens == pytest.approx(tokens, rel=2e-3)
    assert log.max_concurrency == pytest.approx(concurrency, rel=2e-3)
    assert log.starts
    assert f"GPU KV cache size: {log.kv_tokens:,} tokens" in log.words


def test_each_engine_has_its_own_words() -> None:
    model, device = "meta-llama/Llama-3.1-8B", "h100-sxm-80gb"
    assert "KV Cache is allocated. #tokens:" in engine_log(pool(model, device, "0.5.6", engine="sglang")).words[1]
    assert "tokens in paged KV cache" in engine_log(pool(model, device, "1.1", engine="trtllm")).words[1]
    assert engine_log(pool(model, device, "0.6.4")).words[0] == "Loading model weights took 14.9575 GB"


def test_an_engine_that_cannot_hold_its_longest_request_does_not_start() -> None:
    log = engine_log(pool("meta-llama/Llama-3.1-8B", "rtx-4090", "0.11.0"))
    assert not log.starts
    assert log.max_concurrency < 1.0
    assert "max seq len (131072)" in log.words[-1]
