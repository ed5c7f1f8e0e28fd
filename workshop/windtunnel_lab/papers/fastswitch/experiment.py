"""Tails under changing priorities: swapping block by block, next to groups of blocks that move next to iterations."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
SMALL = ("meta-llama/Llama-3.1-8B", "a10-24gb", "rate_8b")
LARGE = ("Qwen/Qwen2.5-32B", "a100-sxm-80gb", "rate_32b")


def scenario(case: tuple[str, str, str], values: Values, *, fast: bool) -> Values:
    """Conversations on one device, priorities drawn anew every so many iterations."""
    model, device, rate = case
    copy_s = values["copy_us"] * 1e-6
    parts: Values = {"group_blocks": values["group_blocks"], "copy_s": copy_s}
    return {
        "model": model,
        "cluster": {"device": device, "nodes": 1, "devices_per_node": 1},
        "techniques": [{"fastswitch": parts}] if fast else [],
        "serving": {
            "engine": "vllm",
            "engine_version": fixed("engine_version"),
            "pools": [
                {
                    "limits": {"max_model_len": 8192, "max_num_batched_tokens": 8192, "max_num_seqs": 256},
                    "queue": {"priority_trace": {"update_every": values["update_every"], "pattern": values["pattern"]}},
                    "kv": {"swap_space_bytes": fixed("swap_space"), "swap": {"copy_s": copy_s}},
                }
            ],
            "traffic": {
                "rate_per_s": values[rate] * fixed("turns"),
                "num_requests": fixed("requests"),
                "input_tokens": fixed("question"),
                "output_tokens": fixed("answer"),
                "sessions": {
                    "turns": {"distribution": "lognormal", "mean": fixed("turns"), "cv": 0.6, "min": 1, "max": 20},
                },
            },
        },
    }


def gain(values: Values, case: tuple[str, str, str], measure: str) -> float:
    """P99 of a measure, vLLM over FastSwitch."""
    plain, fast = (getattr(served(scenario(case, values, fast=on)), measure).p99 for on in (False, True))
    return float(plain / fast)


def throughput(values: Values) -> float:
    """Output tokens a second, FastSwitch over vLLM."""
    plain, fast = (served(scenario(SMALL, values, fast=on)).output_tokens_per_s for on in (False, True))
    return fast / plain


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "ttft-8b": lambda v: gain(v, SMALL, "ttft_s"),
        "itl-8b": lambda v: gain(v, SMALL, "itl_s"),
        "ttft-32b": lambda v: gain(v, LARGE, "ttft_s"),
        "throughput": throughput,
    }
