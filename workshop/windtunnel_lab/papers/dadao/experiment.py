"""Accelerated gossip as Poisson clocks beside plain gossip, on a ring."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, results
from windtunnel_lab.reproduce.learned import learned
from windtunnel_lab.reproduce.settings import Values, load

TITLE = "DADAO (Nabli and Oyallon 2022)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel_lab.papers.dadao")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def over_gossip(values: Values) -> float:
    """Loss above the floor of plain gossip over that of DADAO, after as many gradients."""
    condition = values["condition"]
    section = {
        "task": {"quadratic": {"condition": condition, "noise": 0.0, "shift": 1.0}},
        "workers": fixed("workers"),
        "steps": fixed("steps"),
        "inner": "sgd",
        "lr": 1.0,
        "algorithms": [{"gossip": {"graph": "ring"}}, {"dadao": {"graph": "ring", "convexity": 1.0 / condition}}],
    }
    found = learned(section)
    first, second = (a.loss or float("inf") for a in found.algorithms)
    floor = found.floor or 0.0
    return (first - floor) / max(second - floor, 1e-15)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "ring": over_gossip,
    }


def run() -> list[ClaimResult]:
    """All claims of the paper."""
    return results(setting(), "dadao", measures())
