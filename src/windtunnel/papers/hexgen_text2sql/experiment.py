"""Text to SQL on unlike devices: round robin and arrival, or speed against queue and the most urgent stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from windtunnel.reproduce import ClaimResult
from windtunnel.reproduce.claims import Measure, results
from windtunnel.reproduce.programs import reasoned
from windtunnel.reproduce.settings import Values, load

TITLE = "HexGen-Text2SQL (Peng et al. 2025)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.hexgen_text2sql")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def scenario(rate: float, alpha: float | None) -> Values:
    """Questions on four unlike instances; without `alpha` the plain scheduler."""
    queue = "fcfs" if alpha is None else "stage_urgency"
    router = "round_robin" if alpha is None else {"speed_and_queue": {"alpha": alpha}}
    groups = [("a100-sxm-80gb", 2), ("a6000-48gb", 1), ("l40s-48gb", 1)]
    return {
        "model": fixed("model"),
        "cluster": {"groups": [{"device": d, "nodes": 1, "devices_per_node": n} for d, n in groups]},
        "serving": {
            "precision": {"weights": "w4a16"},
            "pools": [
                {"group": g, "replicas": n, "plan": {"tp": 1}, "queue": queue} for g, (_, n) in enumerate(groups)
            ],
            "router": router,
        },
        "programs": {
            "strategy": "text_to_sql",
            "problems": fixed("problems"),
            "rate_per_s": rate,
            "deadline_s": fixed("deadline_s"),
        },
        "population": {"beta": {"a": 1.0, "b": 1.0}},
    }


def kept_s(rate: float, alpha: float | None) -> float:
    """Deadline that most questions keep: between p90 and p99 of latency, by the logarithm of the rest."""
    own = reasoned(scenario(rate, alpha))[0].latency_s
    low, high = own["p90"], own["p99"]
    at = math.log10(0.1 / (1 - fixed("share")))
    return float(low * (high / low) ** at)


def best_s(rate: float) -> float:
    """With the best alpha."""
    return min(kept_s(rate, alpha) for alpha in fixed("alphas"))


def deadline(values: Values) -> float:
    """Plain over tuned."""
    return kept_s(values["rate"], None) / best_s(values["rate"])


def most(kept: Callable[[float], float]) -> float:
    """Rate up to which a scheduler keeps the deadline, between two rates by their logarithms."""
    rates, limit = fixed("rates"), fixed("deadline_s")
    seconds = [kept(rate) for rate in rates]
    for k, own in enumerate(seconds):
        if own > limit:
            if k == 0:
                return float(rates[0])
            part = math.log(limit / seconds[k - 1]) / math.log(own / seconds[k - 1])
            return float(rates[k - 1] * (rates[k] / rates[k - 1]) ** part)
    return float(rates[-1])


def throughput(_: Values) -> float:
    """Tuned over plain."""
    return most(best_s) / most(lambda rate: kept_s(rate, None))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"deadline": deadline, "throughput": throughput}


def run() -> list[ClaimResult]:
    """Deadline and throughput."""
    return results(setting(), "hexgen_text2sql", measures())
