"""Exports of wide expert parallelism name the exchange that was priced; engines that would not start are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.exporters.launch import export


def _scenario(engine: str, device: str = "h200-sxm-141gb", pools: Any = None) -> dict[str, Any]:
    traffic = {"rate_per_s": 2, "num_requests": 20, "input_tokens": 500, "output_tokens": 50}
    own = pools or [{"plan": {"dp": 16, "ep": 16}}]
    return {
        "model": "deepseek-ai/DeepSeek-V3",
        "cluster": {"device": device, "nodes": 4, "devices_per_node": 8},
        "serving": {"engine": engine, "pools": own, "traffic": traffic},
    }


def _written(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("*.sh")))


SPLIT = [{"role": role, "plan": {"dp": 16, "ep": 16}} for role in ("prefill", "decode")]


@pytest.mark.parametrize(
    ("engine", "version", "pools", "words"),
    # docs.vllm.ai, serving/expert_parallel_deployment; docs.sglang.io, advanced_features/expert_parallelism
    [
        ("vllm", None, None, ["--all2all-backend deepep_low_latency"]),
        ("vllm", None, SPLIT, ["--all2all-backend deepep_high_throughput", "--all2all-backend deepep_low_latency"]),
        ("vllm", "0.10.2", None, ["VLLM_ALL2ALL_BACKEND=deepep_low_latency"]),
        ("sglang", None, None, ["--moe-a2a-backend deepep", "--deepep-mode auto"]),
        ("sglang", None, SPLIT, ["--deepep-mode normal", "--deepep-mode low_latency"]),
    ],
)
def test_the_exchange_is_written(
    engine: str, version: str | None, pools: Any, words: list[str], tmp_path: Path
) -> None:
    export(_scenario(engine, pools=pools), engine, version, tmp_path)
    text = " ".join(_written(tmp_path).replace("\\\n", " ").split())
    for word in words:
        assert word in text


def test_tensor_parallel_experts_need_no_exchange(tmp_path: Path) -> None:
    export(_scenario("vllm", pools=[{"plan": {"tp": 8, "ep": 8}}]), "vllm", None, tmp_path)
    assert "all2all" not in _written(tmp_path)


def test_a_context_beyond_the_cache_is_said() -> None:
    """Llama-3.1-8B's 131,072 tokens of 128 KiB are 16 GiB; next to its weights a card of 24 GB has about 5."""
    scenario = _scenario("vllm", "l4-24gb", [{}]) | {"model": "meta-llama/Llama-3.1-8B"}
    found = [line for line in api.simulate_serving(scenario).warnings if "refuses to start" in line]
    assert found and "131,072" in found[0]
    scenario["serving"]["pools"] = [{"limits": {"max_model_len": 8192}}]
    assert not any("refuses to start" in line for line in api.simulate_serving(scenario).warnings)
