"""One process a phase against one for both, by latency at a rate and by rate within objectives."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.techniques.limits import merged, with_technique
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__, "semi-pd")
fixed = EXPERIMENT.fixed
DEEPSEEK, LLAMA = "deepseek", "llama"
LIGHT_S = 60.0
"""Seconds between requests of a light load."""


def scenario(model: str, rate: float, values: Values, *, split: bool, slo: Values | None = None) -> Values:
    """One server under one load."""
    tp = fixed("tp")[model]
    lengths = {"distribution": "lognormal", "cv": fixed("cv"), "min": 1, "max": 16384}
    engine = {"engine": "sglang"} if model == DEEPSEEK else {"engine": "vllm", "engine_version": "0.8.5"}
    plain = {
        "model": fixed(model),
        "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": tp},
        "serving": engine
        | {
            "pools": [{"plan": {"tp": tp}, "kv": {"prefix_caching": False}}],
            "slo": slo or {},
            "traffic": {
                "rate_per_s": rate,
                "num_requests": fixed("requests"),
                "input_tokens": {**lengths, "mean": values["input"]},
                "output_tokens": {**lengths, "mean": values["output"]},
            },
        },
    }
    knobs = {"prefill_share": values["prefill_share"], "decode_share": fixed("decode_share")}
    return with_technique(plain, "semi-pd", knobs) if split else plain


def light(model: str, values: Values) -> ServingResult:
    """The unified system with one request at a time."""
    few = {"serving": {"traffic": {"num_requests": 40, "process": "constant"}}}
    return served(merged(scenario(model, 1.0 / LIGHT_S, values, split=False), few))


def objectives(model: str, values: Values) -> Values:
    """Multiples of what a light load sees."""
    alone, factor = light(model, values), values["slo_factor"]
    return {"ttft_s": factor * alone.ttft_s.mean, "tpot_s": factor * alone.tpot_s.mean}


@lru_cache(maxsize=32)
def _loaded(values: tuple[tuple[str, float], ...]) -> float:
    own = dict(values)
    limit = 3.0 * light(DEEPSEEK, own).e2e_s.mean
    low, high = 1.0 / LIGHT_S, 64.0
    for _ in range(9):
        middle = (low * high) ** 0.5
        slow = served(scenario(DEEPSEEK, middle, own, split=False)).e2e_s.mean > limit
        low, high = (low, middle) if slow else (middle, high)
    return low


def latency_ratios(values: Values) -> list[float]:
    """Unified over split, by load."""
    full = _loaded(tuple(sorted(values.items())))
    slo = objectives(DEEPSEEK, values)
    out = []
    for share in fixed("loads"):
        plain = served(scenario(DEEPSEEK, share * full, values, split=False, slo=slo))
        split = served(scenario(DEEPSEEK, share * full, values, split=True, slo=slo))
        out.append(plain.e2e_s.mean / split.e2e_s.mean)
    return out


def most(values: Values, *, split: bool) -> float:
    """Most requests per second with enough of them within objectives."""
    slo, low, high = objectives(LLAMA, values), 0.02, 32.0
    for _ in range(9):
        middle = (low * high) ** 0.5
        good = served(scenario(LLAMA, middle, values, split=split, slo=slo)).slo_attainment >= fixed("attainment")
        low, high = (middle, high) if good else (low, middle)
    return low


def _mean(values: Values) -> float:
    ratios = latency_ratios(values)
    return sum(ratios) / len(ratios)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "deepseek/latency": _mean,
        "deepseek/every-load": lambda v: min(latency_ratios(v)),
        "llama/rate": lambda v: most(v, split=True) / most(v, split=False),
    }


def plot(_: list[ClaimResult]) -> Any:
    """Mean latency of one pool over that of split SMs, over load."""
    found = dict(zip(fixed("loads"), latency_ratios(central(EXPERIMENT.setting)), strict=True))
    levels = {"published: 1.27 to 2.58": 1.27, "": 2.58}
    line = curve(found, found.__getitem__)
    return beside({"DeepSeek-V2-Lite": {"semi-PD": line}}, "load", "latency, one pool over split", levels=levels)
