"""Rates and objectives of split instances next to vLLM's whole ones, as the artifact's scripts measure them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from windtunnel.serving.results.serving_result import ServingResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
SPLIT, VLLM = "distserve", "vllm"
_STEPS = 9
"""Halvings of a rate or a scale: 0.2 % of the range."""


def pools(system: str, model: str) -> list[Values]:
    """What serves."""
    plans = fixed("plans")[model]
    if system == VLLM:
        return [{"plan": plans["vllm"], "limits": fixed("vllm") | {"cuda_graphs": False}}]
    return [
        {"role": "prefill", "plan": plans["prefill"], "limits": fixed("prompts")},
        {"role": "decode", "plan": plans["decode"], "limits": fixed("answers")},
    ]


def devices(system: str, model: str) -> int:
    """Number of devices in all pools together."""
    return int(sum(np.prod(list(pool["plan"].values())) for pool in pools(system, model)))


def scenario(system: str, case: str, rate: float, seed: int, values: Values) -> Values:
    """One run of the benchmark, at a rate per device."""
    own = fixed("cases")[case]
    count = devices(system, own["model"])
    mean, longest = fixed("means")[own["data"]], fixed("longest")
    cv = values["cv"] if own["data"] == "sharegpt" else values["cv_narrow"]
    lengths = {"distribution": "lognormal", "cv": cv}
    room = longest - int(mean["output"])
    version = fixed("split_version" if system == SPLIT else "engine_version")
    serving: Values = {
        "engine": "vllm",
        "engine_version": version,
        "pools": pools(system, own["model"]),
        "traffic": {
            "rate_per_s": rate * count,
            "num_requests": own["requests"] * count,
            "seed": seed,
            "input_tokens": {**lengths, "mean": mean["input"], "max": room},
            "output_tokens": {**lengths, "mean": mean["output"], "max": longest // 2},
        },
    }
    if system == SPLIT:
        serving["transfer"] = fixed("transfer")
    return {
        "model": own["model"],
        "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 8},
        "serving": serving,
    }


def runs(system: str, case: str, rate: float, values: Values) -> list[ServingResult]:
    """One run a seed."""
    return [served(scenario(system, case, rate, seed, values)) for seed in range(1, fixed("seeds") + 1)]


def attained(system: str, case: str, rate: float, values: Values, scale: float = 1.0) -> float:
    """Share of requests inside both objectives, each scaled."""
    own = fixed("cases")[case]
    shares = []
    for r in runs(system, case, rate, values):
        tpot = np.nan_to_num(r.table["tpot_s"], nan=0.0)  # an answer of one token has none
        shares.append(np.mean((r.table["ttft_s"] <= own["ttft_s"] * scale) & (tpot <= own["tpot_s"] * scale)))
    return float(np.mean(shares))


def crossing(share: Callable[[float], float], low: float, high: float, *, rising: bool) -> float:
    """Where a share crosses the attainment asked for; an end of the range where it does not."""
    asked = fixed("attainment")
    for _ in range(_STEPS):
        middle = (low * high) ** 0.5
        if (share(middle) >= asked) == rising:
            high = middle
        else:
            low = middle
    return float((low * high) ** 0.5)


def most(system: str, case: str, values: Values) -> float:
    """Largest rate per device with 90 % inside the objectives."""
    return crossing(lambda rate: attained(system, case, rate, values), 0.01, 10.0, rising=False)


def tightest(system: str, case: str, values: Values) -> float:
    """Smallest scale of the objectives that 90 % meet at the script's rate."""
    rate = fixed("cases")[case]["rate"]
    return crossing(lambda scale: attained(system, case, rate, values, scale), 0.05, 100.0, rising=True)


def gain(case: str, values: Values) -> float:
    """Requests per device."""
    return most(SPLIT, case, values) / most(VLLM, case, values)


def share_of_transfer(case: str, values: Values) -> float:
    """Mean time of moving over mean time of a request."""
    found = runs(SPLIT, case, fixed("cases")[case]["rate"], values)
    return float(np.mean([r.transfer["moving_s"]["mean"] / r.e2e_s.mean for r in found]))


def _rate(case: str) -> Measure:
    return lambda values: gain(case, values)


def _objective(case: str) -> Measure:
    return lambda values: tightest(VLLM, case, values) / tightest(SPLIT, case, values)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    cases = list(fixed("cases"))
    tight = ("sharegpt-13b", "humaneval-66b", "longbench-66b")
    return {
        **{f"rate/{case}": _rate(case) for case in cases},
        "rate/most": lambda v: max(gain(case, v) for case in cases),
        **{f"objective/{case}": _objective(case) for case in tight},
        "transfer/share": lambda v: share_of_transfer("sharegpt-66b", v),
    }
