"""Run times of single calls, alone and on a busy service."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "idealized-runtime")
fixed = EXPERIMENT.fixed


def scenario(which: int, traffic: Values) -> Values:
    """One model's service."""
    own = fixed("models")[which]
    return {
        "model": own["model"],
        "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": own["tp"]},
        "serving": {
            "engine": "vllm",
            "engine_version": "0.6.0",
            "pools": [{"plan": {"tp": own["tp"]}}],
            "traffic": traffic,
        },
    }


def alone_s(which: int, prompt: int, output: int) -> float:
    """Seconds of a call with nobody else there."""
    traffic = {"concurrency": 1, "num_requests": 2, "input_tokens": prompt, "output_tokens": output}
    return served(scenario(which, traffic)).e2e_s.mean


@lru_cache(maxsize=16)
def table(which: int) -> Floats:
    """(prompts, outputs) seconds alone."""
    return np.array([[alone_s(which, p, o) for o in fixed("outputs")] for p in fixed("prompts")])


def r_squared(which: int) -> float:
    """R² of a law with one cost for each prompt length and one cost per output token."""
    seconds = table(which)
    o = np.array(fixed("outputs"), float)
    slope = ((o - o.mean()) * (seconds - seconds.mean(1, keepdims=True))).sum() / (
        len(seconds) * ((o - o.mean()) ** 2).sum()
    )
    law = seconds.mean(1, keepdims=True) + slope * (o - o.mean())
    return float(1.0 - ((seconds - law) ** 2).sum() / ((seconds - seconds.mean()) ** 2).sum())


def slope_ratio(which: int) -> float:
    """Seconds per output token at the longest prompt over those at the shortest."""
    first, last = ((row[-1] - row[0]) / (fixed("outputs")[-1] - fixed("outputs")[0]) for row in table(which)[[0, -1]])
    return float(last / first)


def full_rate(which: int) -> float:
    """Requests per second that the service answers when all are there at the start."""
    probe = fixed("probe")
    traffic = {"offline": True, "num_requests": 400, "input_tokens": probe["prompt"], "output_tokens": probe["output"]}
    return served(scenario(which, traffic)).throughput_requests_per_s


def least_s(which: int, values: Values) -> float:
    """The least of a few calls among others, spread over a busy run."""
    probe = fixed("probe")
    traffic = {
        "rate_per_s": values["load"] * full_rate(which),
        "num_requests": 600,
        "input_tokens": probe["prompt"],
        "output_tokens": probe["output"],
        "seed": 3,
    }
    times = served(scenario(which, traffic)).table["e2e_s"]
    picked = np.linspace(100, len(times) - 1, fixed("repeats")).astype(int)
    return float(times[picked].min())


def probes() -> Floats:
    """Seconds of the probe alone, by model."""
    probe = fixed("probe")
    return np.array([alone_s(i, probe["prompt"], probe["output"]) for i in range(len(fixed("models")))])


def denoised(values: Values) -> Floats:
    """Least seconds of the probe on a busy service, by model."""
    return np.array([least_s(i, values) for i in range(len(fixed("models")))])


def ranking(values: Values) -> float:
    """Rank correlation."""
    a, b = (np.argsort(np.argsort(x)) for x in (probes(), denoised(values)))
    return float(np.corrcoef(a, b)[0, 1])


def farthest(found: list[float]) -> float:
    """The value farthest from 1."""
    return max(found, key=lambda x: abs(x - 1.0))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    count = range(len(fixed("models")))
    return {
        "law/r2": lambda _: min(r_squared(i) for i in count),
        "law/even": lambda _: farthest([slope_ratio(i) for i in count]),
        "denoised/error": lambda v: farthest(list(denoised(v) / probes())),
        "denoised/ranking": ranking,
    }
