"""Requests fused into one running batch, next to one request after the other."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
GPT_J, LLAMA = "EleutherAI/gpt-j-6b", "meta-llama/Llama-2-13b-hf"
FUSED, ALONE = "flover", "static"
SPARSE_MS = 60_000


def scenario(model: str, policy: str, interval_ms: float, values: Values) -> Values:
    """So many requests at even intervals on one A100."""
    seqs = fixed("requests") if policy == FUSED else fixed("baseline_batch") * values["window_requests"]
    longest = fixed("input") + fixed("output")
    return {
        "model": model,
        "cluster": {"device": "a100-sxm-40gb", "nodes": 1, "devices_per_node": 1},
        "techniques": ["flover"] if policy == FUSED else [],
        "serving": {
            "engine": "trtllm",
            "engine_version": fixed("engine_version"),
            "pools": [{"policy": policy, "limits": {"max_num_seqs": seqs, "max_model_len": longest}}],
            "traffic": {
                "process": "constant",
                "rate_per_s": 1000.0 / interval_ms,
                "num_requests": fixed("requests"),
                "input_tokens": fixed("input"),
                "output_tokens": fixed("output"),
            },
        },
    }


def speed_up(model: str, interval_ms: float, values: Values) -> float:
    """From the first arrival to the last answer, without fusion over with it."""
    alone, fused = (served(scenario(model, policy, interval_ms, values)).duration_s for policy in (ALONE, FUSED))
    return alone / fused


def best(values: Values, model: str) -> float:
    """Over the intervals."""
    return max(speed_up(model, interval, values) for interval in fixed("intervals_ms"))


def falls(values: Values) -> float:
    """Smallest ratio of the speed-up at an interval to that at the next longer one."""
    found = [speed_up(GPT_J, interval, values) for interval in fixed("intervals_ms")]
    return min(short / long for short, long in pairwise(found))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "gpt-j": partial(best, model=GPT_J),
        "llama-13b": partial(best, model=LLAMA),
        "monotone": falls,
        "sparse": partial(_sparse),
    }


def _sparse(values: Values) -> float:
    return speed_up(GPT_J, SPARSE_MS, values)


def plot(results: list[ClaimResult]) -> Any:
    """Speed-up over the time between two requests."""
    values, series = central(EXPERIMENT.setting), {}
    for name, model in (("GPT-J 6B", GPT_J), ("LLaMA 13B", LLAMA)):
        series[name] = curve(fixed("intervals_ms"), lambda ms, m=model: speed_up(m, ms, values))
    levels = {f"published, {n}: {c.published:g}": c.published for n, c in zip(series, results, strict=False)}
    return beside({"32 requests": series}, "ms between requests", "speed-up", log_x=True, levels=levels)
