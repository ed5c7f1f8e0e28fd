"""Outer gradients a round late: whole, eager, at a lower rate."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "eager-diloco")
fixed = EXPERIMENT.fixed


DELAYED: dict[str, Any] = {"mode": "delayed"}
NONE: dict[str, Any] = {"plain": True}


def ratio(values: Values, first: dict[str, Any], second: dict[str, Any]) -> float:
    """Loss with the first knobs over that with the second."""
    return loss_ratio(proxy(EXPERIMENT.setting, values, [_algorithm(values, first), _algorithm(values, second)]))


def _algorithm(values: Values, knobs: dict[str, Any]) -> dict[str, Any]:
    period = {"period": values["period"]}
    return {"diloco": period} if knobs is NONE else {"eager-diloco": period | knobs}


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "eager": lambda v: ratio(v, DELAYED, {}),
        "none": lambda v: ratio(v, {}, NONE),
        "lower": lambda v: ratio(v, DELAYED, DELAYED | {"outer_lr": fixed("lower")}),
    }
