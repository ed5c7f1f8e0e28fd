"""Mixes of short and long prompts on instances with and without lending; the longest prompt that fits."""

from __future__ import annotations

from itertools import product

from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values, variants

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
KEPT = 0.1
"""The technique's default: share of its blocks that an instance does not lend."""


def scenario(model: str, tp: int, traffic: Values, *, lending: bool, replicas: int | None = None) -> Values:
    """Instances on the whole cluster."""
    devices = fixed("nodes") * 8
    return {
        "model": model,
        "cluster": {"device": fixed("device"), "nodes": fixed("nodes"), "devices_per_node": 8},
        "techniques": [{"infinite-llm": {"kept": KEPT}}] if lending else [],
        "serving": {
            "engine": "generic",
            "router": "least_requests",
            "pools": [
                {
                    "replicas": replicas or devices // tp,
                    "plan": {"tp": tp},
                    "kv": {"prefix_caching": False},
                    "limits": {"max_model_len": 20_000_000},
                }
            ],
            "traffic": {"offline": True, **traffic},
        },
    }


def cache_tokens(model: str, tp: int) -> int:
    """Tokens that one instance holds."""
    few = {"num_requests": 1, "input_tokens": 16, "output_tokens": 1}
    return int(served(scenario(model, tp, few, lending=False)).capacity["tokens"])


def gain(model: str, tp: int, values: Values) -> float:
    """Tokens per second with lending over those without."""
    long = int(values["long"] * cache_tokens(model, tp)) - values["output"]
    often = max(round(1.0 / values["long_share"]) - 1, 1)
    lengths = {"distribution": "empirical", "values": [long] + [values["short"]] * often}
    traffic = {"num_requests": fixed("requests"), "input_tokens": lengths, "output_tokens": values["output"]}
    rates = [served(scenario(model, tp, traffic, lending=on)).total_tokens_per_s for on in (False, True)]
    return rates[1] / rates[0]


def gains(values: Values) -> list[float]:
    """Over models."""
    return [gain(model, tp, values) for model, tp in fixed("models").items()]


def most(values: Values) -> float:
    """Over models and mixes: every open setting at its ends too."""
    return max(max(gains(own)) for own in [values, *variants(EXPERIMENT.setting)])


def contexts() -> list[float]:
    """Longest prompt over that of one instance, by model and number of instances that the cluster holds."""
    out = []
    for (model, tp), count in product(fixed("models").items(), fixed("instances")):
        if count * tp > fixed("nodes") * 8:
            continue
        one = cache_tokens(model, tp)
        low, high = one, count * one
        while high - low > one // 64:  # what is refused is a threshold in length
            middle = (low + high) // 2
            asked = {"num_requests": 1, "input_tokens": middle, "output_tokens": 1}
            run = served(scenario(model, tp, asked, lending=True, replicas=count))
            low, high = (middle, high) if run.completed else (low, middle)
        out.append(low / one)
    return out


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "throughput/least": lambda v: min(gains(v)),
        "throughput/most": most,
        "context/least": lambda _: min(contexts()),
        "context/most": lambda _: max(contexts()),
    }
