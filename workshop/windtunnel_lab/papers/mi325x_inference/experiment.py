"""Closed loops of two architectures on eight MI325X."""

from __future__ import annotations

from windtunnel.serving.results.serving_result import ServingResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "mi325x-inference")
fixed = EXPERIMENT.fixed


def run_of(name: str, clients: int, tokens: Values) -> ServingResult:
    """One level of concurrency: prompts of `input` tokens, answers of `output`, `requests` of them."""
    own = fixed("models")[name]
    return served(
        {
            "model": own["model"],
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 8},
            "serving": {
                "engine": "vllm",
                "engine_version": fixed("engine_version"),
                "precision": {"weights": own["weights"]},
                "pools": [{"plan": {"tp": fixed("tp")}, "limits": fixed("limits")}],
                "traffic": {
                    "concurrency": clients,
                    "num_requests": max(tokens["requests"], clients),
                    "input_tokens": tokens["input"],
                    "output_tokens": tokens["output"],
                },
            },
        }
    )


def latency(name: str, clients: int) -> float:
    """99th percentile of end-to-end seconds."""
    return run_of(name, clients, fixed("long")).e2e_s.p99


def peak(name: str, values: Values) -> float:
    """Tokens per second, prompts included, of 500 short requests in flight."""
    return run_of(name, 500, short(values)).total_tokens_per_s


def vision_peak(values: Values) -> float:
    """Tokens per second of 500 requests in flight whose prompts are images and questions, the encoder left out."""
    tokens = {"input": values["image_input"], "output": values["short_output"], "requests": 1000}
    return run_of("vision", 500, tokens).total_tokens_per_s


def saturated(name: str, tokens: Values) -> float:
    """The first level of concurrency whose rate is near the largest; a level has no more in flight than requests."""
    rates = {n: run_of(name, min(n, tokens["requests"]), tokens).total_tokens_per_s for n in fixed("levels")}
    return float(next(n for n, rate in rates.items() if rate >= fixed("near") * max(rates.values())))


def short(values: Values) -> Values:
    """Lengths of short requests, a thousand a level."""
    return {"input": values["short_input"], "output": values["short_output"], "requests": 1000}


def _latency(name: str, clients: int) -> Measure:
    return lambda _: latency(name, clients)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    rate = {n: (lambda n=n: run_of("llama", n, fixed("long")).total_tokens_per_s) for n in (10, 100)}
    return {
        **{f"llama/e2e-{n}": _latency("llama", n) for n in (10, 50, 100)},
        "llama/curve": lambda _: rate[100]() / rate[10](),
        "deepseek/e2e-10": _latency("deepseek", 10),
        "deepseek/curve": lambda _: latency("deepseek", 50) / latency("deepseek", 10),
        "llama/peak": lambda v: peak("llama", v),
        "peak/llama-over-deepseek": lambda v: peak("llama", v) / peak("deepseek", v),
        "catalogue/llama": lambda v: peak("llama", v),
        "catalogue/deepseek": lambda v: peak("deepseek", v),
        "catalogue/vision": vision_peak,
        "catalogue/saturation-short": lambda v: saturated("llama", short(v)),
        "catalogue/saturation-long": lambda _: saturated("llama", fixed("long")),
        "catalogue/aiter": lambda _: 0.0,
    }
