"""Training with some wrong gradients: the flag aggregate beside mean and median."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, results
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values, load

TITLE = "Flag Aggregator (Almasi et al. 2023), what it learns"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel_lab.papers.flag_aggregator_learning")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def over_flag(algorithm: dict[str, Any], values: Values) -> float:
    """Loss of another rule over that of the flag aggregate, with random gradients of some workers."""
    attack = {"kind": "random", "workers": values["wrong"], "strength": fixed("strength")}
    section = proxy(setting(), {}, [algorithm, "flag-aggregator"], inner="sgd", batch=16, attack=attack)
    return loss_ratio(section)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "mean": lambda v: over_flag({"robust": {"aggregator": "mean"}}, v),
        "median": lambda v: over_flag({"robust": {"aggregator": "median"}}, v),
    }


def run() -> list[ClaimResult]:
    """All claims of the paper."""
    return results(setting(), "flag-aggregator-learning", measures())
