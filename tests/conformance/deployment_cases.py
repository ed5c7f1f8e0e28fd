"""One deployment for each value of each field that a launch file can say, for tests that go through all engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windtunnel.importers.shell import Word, read_script

DENSE, EXPERTS, LATENT = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3"
ENGINE_VERSION = {"vllm": "0.33.0", "sglang": "0.5.23", "trtllm": "1.2"}
KNOB = {"vllm": "gpu_memory_utilization", "sglang": "mem_fraction_static", "trtllm": "free_gpu_memory_fraction"}
TRAFFIC = {"rate_per_s": 2.0, "num_requests": 50, "input_tokens": 512, "output_tokens": 64}


def deployments(engine: str) -> dict[str, dict[str, Any]]:
    """Name of a case → scenario."""
    knob = KNOB[engine]
    pools: dict[str, tuple[str, list[dict[str, Any]], dict[str, Any]]] = {
        "base": (DENSE, [{}], {}),
        "tp": (DENSE, [{"plan": {"tp": 4}}], {}),
        "pp": (DENSE, [{"plan": {"tp": 2, "pp": 2}}], {}),
        "replicas": (DENSE, [{"replicas": 4, "plan": {"tp": 2}}], {}),
        "two nodes, tp": (LATENT, [{"plan": {"tp": 16}}], {"precision": {"weights": "fp8_block"}}),
        "two nodes, pp": (LATENT, [{"plan": {"tp": 8, "pp": 2}}], {"precision": {"weights": "fp8_block"}}),
        "two nodes, dp": (LATENT, [{"plan": {"dp": 16, "ep": 16}}], {"precision": {"weights": "fp8_block"}}),
        "dp and tp": (EXPERTS, [{"plan": {"tp": 2, "dp": 4, "ep": 8}}], {}),
        "experts cut": (EXPERTS, [{"plan": {"tp": 4}}], {}),
        "experts whole": (EXPERTS, [{"plan": {"tp": 4, "ep": 4}}], {}),
        "dcp": (LATENT, [{"plan": {"tp": 8, "dcp": 4}}], {"precision": {"weights": "fp8_block"}}),
        "cp": (LATENT, [{"plan": {"tp": 8, "cp": 2}}], {"precision": {"weights": "fp8_block"}}),
        "limits": (DENSE, [{"limits": {"max_num_seqs": 128, "max_num_batched_tokens": 4096}}], {}),
        "length": (DENSE, [{"limits": {"max_model_len": 16384}}], {}),
        "memory": (DENSE, [{"limits": {knob: 0.8}}], {}),
        "no graphs": (DENSE, [{"limits": {"cuda_graphs": False}}], {}),
        "captured": (DENSE, [{"limits": {"cuda_graph_sizes": [1, 2, 4, 8, 64]}}], {}),
        "captured up to": (DENSE, [{"limits": {"max_cudagraph_capture_size": 96}}], {}),
        "copies": (
            LATENT,
            [{"plan": {"dp": 16, "ep": 16}}],
            {
                "precision": {"weights": "fp8_block"},
                "expert_load": {"eplb": True, "num_redundant_experts": 32, "step_interval": 1000},
            },
        ),
        "chunks": (DENSE, [{"limits": {"chunked_prefill": True, "max_num_batched_tokens": 2048}}], {}),
        "stream": (DENSE, [{"limits": {"stream_interval": 8}}], {}),
        "no prefix caching": (DENSE, [{"kv": {"prefix_caching": False}}], {}),
        "prefix caching": (DENSE, [{"kv": {"prefix_caching": True}}], {}),
        "block": (DENSE, [{"kv": {"block_size": 64}}], {}),
        "host tier": (
            DENSE,
            [
                {
                    "plan": {"tp": 2},
                    "kv": {
                        "prefix_caching": True,
                        "tiers": [{"kind": "host", "capacity_bytes": 64 * 2.0**30}],
                    },
                }
            ],
            {},
        ),
        "priority": (DENSE, [{"queue": "priority"}], {}),
        "fp16": (DENSE, [{}], {"precision": {"weights": "fp16"}}),
        "fp8": (DENSE, [{}], {"precision": {"weights": "fp8"}}),
        "fp8 cache": (DENSE, [{}], {"precision": {"weights": "fp8", "kv_cache": "fp8"}}),
        "split": (
            DENSE,
            [{"role": "prefill", "replicas": 2}, {"role": "decode", "replicas": 2, "plan": {"tp": 2}}],
            {},
        ),
        "mtp": (
            LATENT,
            [{"plan": {"tp": 8}}],
            {
                "precision": {"weights": "fp8_block"},
                "speculation": {"method": "mtp", "tokens": 1},
            },
        ),
        "draft": (
            "meta-llama/Llama-3.1-70B",
            [{"plan": {"tp": 4}}],
            {"speculation": {"method": "draft", "tokens": 3, "draft": DENSE}},
        ),
        "ngram": (DENSE, [{}], {"speculation": {"method": "ngram", "tokens": 4}}),
        "eagle": (DENSE, [{}], {"speculation": {"method": "eagle", "tokens": 3}}),
        "fair queue": (DENSE, [{"queue": "vtc"}], {}),
        "power of two": (DENSE, [{"replicas": 2}], {"router": "power_of_two"}),
        "prefix aware": (DENSE, [{"replicas": 2}], {"router": "prefix_aware"}),
        "least requests": (DENSE, [{"replicas": 2}], {"router": "least_requests"}),
    }
    out = {}
    for name, (model, own, more) in pools.items():
        serving = {"engine": engine, "engine_version": ENGINE_VERSION[engine], "pools": own, "traffic": TRAFFIC, **more}
        device = "h200-sxm-141gb" if model == LATENT else "h100-sxm-80gb"
        cluster = {"device": device, "nodes": 4, "devices_per_node": 8}
        out[name] = {"model": model, "cluster": cluster, "serving": serving}
    return out


def loads() -> dict[str, dict[str, Any]]:
    """Name of a case → traffic."""
    base = {"num_requests": 40, "input_tokens": 512, "output_tokens": 64}
    even = {"distribution": "uniform", "min": 100, "max": 300}
    spread = {"distribution": "lognormal", "mean": 500, "cv": 1.0, "max": 4000}
    return {
        "poisson": {**base, "rate_per_s": 2.0},
        "gamma": {**base, "rate_per_s": 2, "process": "gamma", "burstiness": 0.5},
        "constant": {**base, "rate_per_s": 2, "process": "constant"},
        "diurnal": {**base, "rate_per_s": 2, "process": "diurnal", "period_s": 20},
        "concurrency": {**base, "concurrency": 8},
        "offline": {**base, "offline": True},
        "even": {**base, "rate_per_s": 2, "input_tokens": even, "output_tokens": even},
        "even, unlike": {**base, "rate_per_s": 2, "input_tokens": even},
        "spread": {**base, "rate_per_s": 2, "input_tokens": spread, "output_tokens": spread},
        "spread, closed": {**base, "concurrency": 4, "input_tokens": spread},
        "prefix": {**base, "rate_per_s": 2, "shared_prefix_tokens": 200},
        "prefix, spread": {**base, "rate_per_s": 2, "shared_prefix_tokens": 64, "input_tokens": {**spread, "min": 80}},
        "duration": {"duration_s": 20, "rate_per_s": 2, "input_tokens": 512, "output_tokens": 64},
        "sessions": {**base, "rate_per_s": 2, "sessions": {"turns": {"mean": 3}, "think_time_s": 2}},
        "warm up": {**base, "rate_per_s": 2, "warmup_requests": 5, "seed": 7},
    }


def words(script: Path, **env: str) -> list[str]:
    """The words of the last command of a written script."""
    found: list[list[Word]] = read_script(script.read_text("utf-8"), env).commands
    return [word.text for word in found[-1] if word.text != "$@"]


def given(command: list[str]) -> dict[str, list[str]]:
    """Option → its values."""
    out: dict[str, list[str]] = {}
    last: list[str] = []
    own = command.index("trtllm-serve") if "trtllm-serve" in command else 0  # mpirun stands before it
    for word in command[own:]:
        if word.startswith("--"):
            last = out.setdefault(word, [])
        else:
            last.append(word)
    return out
