"""Accelerated gossip as Poisson clocks next to plain gossip, on a ring."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


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
