"""Text to SQL on unlike devices: round robin and arrival, or speed against queue and the most urgent stage."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import run_of
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@dataclass(frozen=True, slots=True)
class Served:
    """Figures of one scheduler on one list of devices."""

    kept_s: float
    """Deadline that most of the questions that are looked at keep."""
    questions_per_s: float
    """Over all of the run."""


def scenario(case: Values, values: Values, alpha: float | None) -> Values:
    """Questions on four unlike instances; without `alpha` the plain scheduler.

    Args:
        case: `devices`, `rate` and the numbers of a `trace`.
        values: of what is open.
        alpha: of the dispatcher.
    """
    plain = alpha is None
    as_planned = values["memory"] == "planner"
    names = fixed("planner_devices" if as_planned else "real_devices")
    pools = []
    for group, device in enumerate(case["devices"]):
        kv: Values = {"prefix_caching": values["prefix_caching"]}
        if as_planned:
            kv["num_blocks"] = fixed("planner_blocks")[device]
        queue = "fcfs" if plain else "stage_urgency"
        pools.append({"group": group, "replicas": 1, "plan": {"tp": 1}, "queue": queue, "kv": kv})
    dispatcher = {"speed_and_queue": {"alpha": alpha}}
    if values["dispatcher"] == "sent":
        dispatcher = {"workload_balance": {"alpha": alpha, "slower_share": fixed("slower_share")}}
    return {
        "model": fixed("model"),
        "cluster": {"groups": [{"device": names[d], "nodes": 1, "devices_per_node": 1} for d in case["devices"]]},
        "serving": {
            "precision": {"weights": "w4a16", "kv_cache": "fp8" if as_planned else "bf16"},
            "pools": pools,
            "router": "round_robin" if plain else dispatcher,
        },
        "programs": {
            "strategy": {
                "text_to_sql": {
                    "cv": fixed("cv"),
                    "revisions": case["revisions"],
                    "distinct": case["distinct"],
                    "repeats": values["repeats"],
                    "schema_tokens": case["schema_tokens"],
                    "schema_cv": case["schema_cv"],
                }
            },
            "problems": case["questions"],
            "rate_per_s": case["rate"],
            "deadline_s": fixed("deadline_s"),
        },
        "population": {"beta": {"a": 1.0, "b": 1.0}},
    }


@lru_cache(maxsize=4096)
def _served(text: str) -> Served:
    run = run_of(json.loads(text))
    first, last = (round(part * len(run.latency_s)) for part in fixed("looked_at"))
    seconds = run.latency_s[first:last]
    whole = np.isfinite(seconds).all()
    kept_s = float(np.quantile(seconds, fixed("share"), method="inverted_cdf")) if whole else math.inf
    return Served(kept_s, run.problems_per_s)


def served(case: Values, values: Values, alpha: float | None) -> Served:
    """Equal scenarios are simulated once; claims share them."""
    return _served(json.dumps(scenario(case, values, alpha), sort_keys=True))


def tuned(case: Values, values: Values) -> float:
    """The alpha of the earliest deadline."""
    return float(min(fixed("alphas"), key=lambda alpha: served(case, values, alpha).kept_s))


def cases() -> list[Values]:
    """Every trace at every rate on both lists of devices."""
    return [
        {**trace, "rate": rate, "devices": devices}
        for trace in fixed("traces")
        for rate in fixed("rates")
        for devices in fixed("device_lists")
    ]


def deadline(values: Values) -> float:
    """Plain over tuned, mean of all cases."""
    return float(
        np.mean([served(c, values, None).kept_s / served(c, values, tuned(c, values)).kept_s for c in cases()])
    )


def ends(values: Values) -> float:
    """Questions over the time of the last end, tuned over plain, mean of all cases."""
    return float(
        np.mean(
            [
                served(c, values, tuned(c, values)).questions_per_s / served(c, values, None).questions_per_s
                for c in cases()
            ]
        )
    )


def most(case: Values, values: Values, alpha: float | None) -> float:
    """Questions a second up to which a scheduler keeps the deadline, by halving the logarithm of the rate."""
    low, high = fixed("rate_range")
    limit = values["scale"] * fixed("deadline_s")
    for _ in range(fixed("halvings")):
        middle = math.sqrt(low * high)
        long = case | {"rate": middle, "questions": fixed("stream")}
        low, high = (middle, high) if served(long, values, alpha).kept_s <= limit else (low, middle)
    return math.sqrt(low * high)


def throughput(values: Values) -> float:
    """Tuned over plain, mean of both traces on both lists of devices, with the alpha of the lower rate."""
    own = [c for c in cases() if c["rate"] == min(fixed("rates"))]
    return float(np.mean([most(c, values, tuned(c, values)) / most(c, values, None) for c in own]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"deadline": deadline, "throughput": throughput, "ends": ends}
