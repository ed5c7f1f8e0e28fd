"""Training with some wrong gradients: the flag aggregate next to mean and median."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "flag-aggregator-learning")
fixed = EXPERIMENT.fixed


def over_flag(algorithm: dict[str, Any], values: Values) -> float:
    """Loss of another rule over that of the flag aggregate, with random gradients of some workers."""
    attack = {"kind": "random", "workers": values["wrong"], "strength": fixed("strength")}
    section = proxy(EXPERIMENT.setting, {}, [algorithm, "flag-aggregator"], inner="sgd", batch=16, attack=attack)
    return loss_ratio(section)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "mean": lambda v: over_flag({"robust": {"aggregator": "mean"}}, v),
        "median": lambda v: over_flag({"robust": {"aggregator": "median"}}, v),
    }
