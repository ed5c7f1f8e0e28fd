"""What a machine's own profile says of a step's band: how much of the step it has measured, and how well.

A band of software or a device that nobody measured is wide since their rates are not known: runs of one unit are off
together. A profile states rates of the machine itself, each with its error. So that spread between units counts for the
part of the step whose rates the profile does not state, and the profile's own errors take its place for the rest. What
predictions are off by where rates are known, the model's error, stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from windtunnel.specs.device import MeasuredValue, Profile

_RATES = {
    "gemm": "gemm_fraction",
    "attention": "attention_fraction",
    "memory bound": "memory_fraction",
    "optimizer": "optimizer_fraction",
    "host": "host_kernel_s",
    "scan": "scan_fraction",
}
"""Class of time → the coefficient that stands for its rate."""
_MIXED = ("recompute", "bubble", "slowed by overlap")
"""Classes made of the others: known as well as those are on average."""
_KNOWN = 0.5
"""Relative standard error above which the measurements did not tell a rate."""
_LINKS = ("efficiency", "hop_scale", "base_scale")


@dataclass(frozen=True, slots=True)
class Covered:
    """How much of a step a profile has measured."""

    share: float
    """Of the step's time."""
    error: float
    """Standard error of the step from the profile's own, relative."""


NOTHING = Covered(0.0, 0.0)


def covered(profile: Profile | None, breakdown: Mapping[str, float]) -> Covered:
    """Share of a step at rates of the profile, and what their errors make of the step.

    A rate without an error (a number written by hand) says nothing of how well it is known, and does not count. Errors
    of unlike coefficients are taken as independent; that of one moves all of its class.

    Args:
        profile: of the machine, if it has one.
        breakdown: class of time → seconds, as results have it.
    """
    if profile is None:
        return NOTHING
    links = [profile.network[name] for name in _LINKS if name in profile.network]
    known: dict[str, float] = {}
    for name in breakdown:
        if name.startswith("exposed"):
            error = _error(links)
        elif key := _RATES.get(name):
            error = _error([e for n, e in profile.coefficients.items() if n.partition(".")[0] == key])
        else:
            error = None
        if error is not None:
            known[name] = error
    whole = sum(breakdown.values())
    plain = sum(v for name, v in breakdown.items() if name not in _MIXED)
    if whole <= 0.0 or plain <= 0.0:
        return NOTHING
    by_source: dict[str, float] = {}
    for name, error in known.items():
        source = "links" if name.startswith("exposed") else name
        by_source[source] = by_source.get(source, 0.0) + breakdown[name] * error
    share = sum(breakdown[name] for name in known) / plain  # mixed classes: the same
    return Covered(share, math.hypot(*by_source.values()) / plain)


def _error(entries: list[MeasuredValue]) -> float | None:
    """Largest relative error of the entries; None where none says, or one is not known."""
    most = max((e.relative_error for e in entries if e.relative_error is not None), default=None)
    return None if most is None or most > _KNOWN else most
