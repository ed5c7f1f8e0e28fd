"""Outer gradients a round late: whole, eager, at a lower rate."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, results
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values, load

TITLE = "Eager updates for DiLoCo (Kale et al. 2025)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel_lab.papers.eager_diloco")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


DELAYED: dict[str, Any] = {"mode": "delayed"}
NONE: dict[str, Any] = {"plain": True}


def ratio(values: Values, first: dict[str, Any], second: dict[str, Any]) -> float:
    """Loss with the first knobs over that with the second."""
    return loss_ratio(proxy(setting(), values, [_algorithm(values, first), _algorithm(values, second)]))


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


def run() -> list[ClaimResult]:
    """All claims of the paper."""
    return results(setting(), "eager-diloco", measures())
