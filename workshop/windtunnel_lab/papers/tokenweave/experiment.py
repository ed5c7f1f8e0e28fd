"""Iterations over one prompt, and offline batches, with and without halves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from windtunnel.techniques.limits import FREE, merged
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def scenario(model: str, sms: Sequence[int], *, woven: bool, chunk: int, traffic: Values) -> Values:
    """One deployment on eight H100; `sms` of the fused kernels."""
    plan = {"tp": fixed("tp"), "all_reduce": fixed("all_reduce")}
    return {
        "model": model,
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": fixed("tp")},
        "techniques": [{"tokenweave": {"comm_sms": sms[0], "mlp_sms": sms[1]}}] if woven else [],
        "serving": {
            "engine": "vllm",
            "engine_version": fixed("engine_version"),
            "pools": [{"plan": plan, "limits": {"max_num_batched_tokens": chunk}}],
            "traffic": {"offline": True, **traffic},
        },
    }


def iteration_s(model: str, tokens: int, *, woven: bool, free: bool = False) -> float:
    """Seconds of one iteration over one prompt."""
    traffic = {"num_requests": 1, "input_tokens": tokens, "output_tokens": 1}
    one = scenario(model, fixed("sms")[model][tokens], woven=woven, chunk=tokens, traffic=traffic)
    plain = {"serving": {"pools": [one["serving"]["pools"][0] | {"plan": {"tp": fixed("tp")}}]}}
    return served(merged(merged(one, FREE["scale-up"]), plain) if free else one).iterations["mean_s"]


def cases() -> list[tuple[str, int]]:
    """Models and lengths."""
    return list(product(fixed("models"), fixed("tokens")))


def overhead(_: Values) -> float:
    """Largest share of an iteration that ends with free links."""
    return max(1.0 - iteration_s(m, n, woven=False, free=True) / iteration_s(m, n, woven=False) for m, n in cases())


def speed_ups(*, free: bool = False) -> list[float]:
    """Seconds without halves (or without communication) over seconds with them."""
    return [iteration_s(m, n, woven=False, free=free) / iteration_s(m, n, woven=True) for m, n in cases()]


def throughput(_: Values) -> float:
    """Largest gain in tokens per second of offline batches."""
    gains = []
    for model, length in product(fixed("models"), fixed("inputs")):
        chunk = fixed("chunk").get(model, fixed("chunk")["default"])
        traffic = {"num_requests": fixed("requests"), "input_tokens": length, "output_tokens": fixed("output")}
        rates = [
            served(scenario(model, fixed("batch_sms")[model], woven=w, chunk=chunk, traffic=traffic)).total_tokens_per_s
            for w in (False, True)
        ]
        gains.append(rates[1] / rates[0])
    return max(gains)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "overhead": overhead,
        "latency": lambda _: max(speed_ups()),
        "latency/least": lambda _: min(speed_ups()),
        "throughput": throughput,
        "no-communication": lambda _: max(speed_ups(free=True)),
    }


def plot(results: list[ClaimResult]) -> Any:
    """Speed-up of an iteration over its tokens."""
    most = next(c.published for c in results if c.id.endswith("/latency"))
    panels = {}
    for model in fixed("models"):
        line = curve(fixed("tokens"), lambda n, m=model: iteration_s(m, n, woven=False) / iteration_s(m, n, woven=True))
        panels[model.split("/")[-1]] = {"TokenWeave": line}
    return beside(panels, "tokens", "speed-up", log_x=True, levels={f"published: up to {most:g}": most})
