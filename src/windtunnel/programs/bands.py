"""Intervals of a program's seconds, dollars and joules, from those of the deployments that serve it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windtunnel.serving.results.serving_result import ServingResult

Band = dict[str, Any]
"""level, low, high."""


def scaled_band(result: ServingResult, name: str, value: float, *, inverse: bool = False) -> Band | None:
    """A value's interval, as wide in relation as that of a figure of a deployment; None where the figure has none.

    Args:
        result: of the deployment.
        name: of the figure: `e2e_s`, `output_tokens_per_s`.
        value: that follows the figure in proportion.
        inverse: whether it is in proportion to the figure's inverse.
    """
    own = result.intervals.get(name)
    central = _central(result, name)
    if own is None or not central or not own["low"] > 0:
        return None
    low, high = own["low"] / central, own["high"] / central
    if inverse:
        low, high = 1.0 / high, 1.0 / low
    return {"level": own["level"], "low": min(low, 1.0) * value, "high": max(high, 1.0) * value}


def energy_band(results: Sequence[ServingResult], value: float) -> Band | None:
    """Interval of joules that all deployments use together, as wide in relation as theirs; None where one has none."""
    low = high = total = 0.0
    level = 0.0
    for r in results:
        names = ("energy_interval", "energy_per_output_token_j", "energy_j")
        own, each, used = (r.power.get(name) for name in names)
        if not own or not each or not used:
            return None
        low, high, total = low + used * own["low"] / each, high + used * own["high"] / each, total + used
        level = float(own["level"])
    if not total:
        return None
    return {"level": level, "low": min(low / total, 1.0) * value, "high": max(high / total, 1.0) * value}


def widest_band(bands: Sequence[Band | None], value: float) -> Band | None:
    """The interval that holds all of several ones of the same value; None where none is known."""
    known = [b for b in bands if b is not None]
    if not known:
        return None
    low, high = min(b["low"] for b in known), max(b["high"] for b in known)
    return {"level": known[0]["level"], "low": min(low, value), "high": max(high, value)}


def _central(result: ServingResult, name: str) -> float:
    if name == "output_tokens_per_s":
        return result.output_tokens_per_s
    return float(getattr(result, name).mean)
