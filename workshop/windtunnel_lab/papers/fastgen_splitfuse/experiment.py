"""Clients in a closed loop against vLLM and against forward passes of one size."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__, "fastgen-splitfuse")
fixed = EXPERIMENT.fixed
SPLIT, VLLM = "splitfuse", "vllm"


def scenario(system: str, clients: int, values: Values) -> Values:
    """One run of the benchmark."""
    lengths = {"distribution": "normal", "cv": fixed("cv"), "min": 1}
    return {
        "model": fixed("model"),
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": fixed("tp")},
        "techniques": [{"fastgen-splitfuse": {"budget": values["budget"]}}] if system == SPLIT else [],
        "serving": {
            "engine": "vllm",
            "engine_version": fixed("split_version" if system == SPLIT else "engine_version"),
            "pools": [{"plan": {"tp": fixed("tp")}, "limits": {"cuda_graphs": False}}],
            "traffic": {
                "concurrency": clients,
                "num_requests": fixed("requests"),
                "input_tokens": {**lengths, "mean": values["prompt"], "max": fixed("max_prompt")},
                "output_tokens": {**lengths, "mean": values["answer"]},
            },
        },
    }


def run_of(system: str, clients: int, values: Values) -> ServingResult:
    """One simulated run."""
    return served(scenario(system, clients, values))


def curve_of(system: str, values: Values) -> tuple[Floats, Floats]:
    """Mean latency and requests per second by clients, as the script counts them."""
    latency = np.array([run_of(system, n, values).e2e_s.mean for n in fixed("clients")])
    return latency, np.array(fixed("clients")) / latency


def rate_at(system: str, values: Values, latency_s: float) -> float:
    """Requests per second at a mean latency."""
    latency, rate = curve_of(system, values)
    return float(np.interp(latency_s, latency, rate))


def latency_at(system: str, values: Values, rate_per_s: float) -> float:
    """Least mean latency at a rate; infinity where no number of clients reaches it."""
    latency, rate = curve_of(system, values)
    for i in range(1, len(rate)):
        if rate[i - 1] <= rate_per_s <= rate[i]:
            w = (rate_per_s - rate[i - 1]) / (rate[i] - rate[i - 1])
            return float(latency[i - 1] + w * (latency[i] - latency[i - 1]))
    return float("inf")


def gaps(result: ServingResult) -> list[Floats]:
    """Seconds between the tokens of each request, from the events of the run.

    An iteration with prompts gives a token to sequences that decode next to them, and holds them up elsewhere.
    """
    record = result.record
    assert record is not None
    events, mixed = record.events, bool(result.limits["mixed_batches"])
    stamps = []
    for start, seconds, steps, prompts in zip(
        events["start"], events["seconds"], events["steps"], events["prompts"], strict=True
    ):
        if not prompts:
            stamps.append(start + seconds * np.arange(1, int(steps) + 1) / steps)
        elif mixed:
            stamps.append(np.array([start + seconds]))
    at = np.concatenate(stamps)
    q, out = record.requests, []
    for first, finish in zip(q.first_token_s, q.finish_s, strict=True):
        mine = at[(at > first + 1e-9) & (at <= finish + 1e-9)]
        out.append(np.diff(np.concatenate([[first], mine])))
    return out


@lru_cache(maxsize=64)
def _weights(span: int, most: int) -> Floats:
    return np.asarray((1.0 - 2.0 / (span + 1.0)) ** np.arange(most))


def steady(times: Floats, most_s: float) -> bool:
    """Whether the exponential mean of times between tokens stays below a limit at every token."""
    if not len(times):
        return True
    weights = _weights(fixed("ema_span"), len(times))
    sums = np.convolve(times, weights)[: len(times)]
    return bool((sums / np.cumsum(weights)[: len(times)] < most_s).all())


def good_share(system: str, clients: int, values: Values, tokens_per_s: float = 4.0) -> float:
    """Share of requests within both objectives."""
    result = run_of(system, clients, values)
    prompt = result.table["ttft_s"] <= result.table["input_tokens"] / fixed("prompt_rate")
    held = [ok and steady(times, 1.0 / tokens_per_s) for ok, times in zip(prompt, gaps(result), strict=True)]
    return float(np.mean(held))


def effective(system: str, values: Values) -> tuple[float, float]:
    """Most requests per second within the objectives over numbers of clients, and the share that meets them there."""
    found = []
    for clients in fixed("clients"):
        share = good_share(system, clients, values)
        found.append((share * run_of(system, clients, values).throughput_requests_per_s, share))
    return max(found)


def between_tokens(values: Values, share: float) -> float:
    """VLLM over SplitFuse in a quantile of the time between tokens, 16 clients and answers of 128 tokens."""
    long = values | {"prompt": 2600, "answer": 128}
    both = (np.quantile(np.concatenate(gaps(run_of(system, 16, long))), share) for system in (VLLM, SPLIT))
    vllm, split = both
    return float(vllm / split)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "throughput/splitfuse": lambda v: rate_at(SPLIT, v, 9.0),
        "throughput/vllm": lambda v: rate_at(VLLM, v, 9.0),
        "throughput/ratio": lambda v: rate_at(SPLIT, v, 9.0) / rate_at(VLLM, v, 9.0),
        "latency/ratio": lambda v: latency_at(VLLM, v, 1.2) / latency_at(SPLIT, v, 1.2),
        "effective/splitfuse": lambda v: effective(SPLIT, v)[0],
        "effective/ratio": lambda v: effective(SPLIT, v)[0] / effective(VLLM, v)[0],
        "effective/missed": lambda v: 1.0 - effective(VLLM, v)[1],
        "tokens/p95": lambda v: between_tokens(v, 0.95),
        "tokens/p50": lambda v: between_tokens(v, 0.5),
    }


def plot(results: list[ClaimResult]) -> Any:
    """Mean latency over requests per second, with the points that the blog names."""
    values, by = central(EXPERIMENT.setting), {c.id.split("/", 1)[1]: c.published for c in results}
    named = {
        SPLIT: {by["throughput/splitfuse"]: 9.0, 1.2: 7.0},
        VLLM: {by["throughput/vllm"]: 9.0, 1.2: 14.0},
    }
    series = {}
    for system, points in named.items():
        latency, rates = curve_of(system, values)
        series[system] = curve(rates, dict(zip(rates, latency, strict=True)).__getitem__, points)
    return beside({"Llama-2-70B on four A100": series}, "requests per second", "mean latency, s")
