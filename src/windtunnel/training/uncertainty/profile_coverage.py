"""Coverage of a step by a machine's own profile: the share of the step at measured rates, and their error.

The interval of software or of a device without measured rows is wide because their rates are not known: the errors of
one unit go together. A profile states rates of the machine itself, each with its error. So the spread between units
counts only for the part of the step whose rates the profile does not state, and the profile's own errors count for
the rest. The error of the model itself, which remains where rates are known, stays in the interval.
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
"""Classes of time that consist of the others; they are known as well as the others are on average."""
_KNOWN = 0.5
"""Relative standard error above which a measured rate does not count as known."""
_LINKS = ("efficiency", "hop_scale", "base_scale")


@dataclass(frozen=True, slots=True)
class Coverage:
    """The part of a step that a profile has measured."""

    share: float
    """Share of the step's time."""
    error: float
    """Relative standard error of the step that follows from the errors of the profile."""


NOTHING = Coverage(0.0, 0.0)
"""Coverage without a profile."""


def coverage_of(profile: Profile | None, breakdown: Mapping[str, float]) -> Coverage:
    """Share of a step at rates of the profile, and the error of the step that follows from theirs.

    A rate without an error (a number written by hand) does not count. Errors of different coefficients are taken as
    independent; the error of one coefficient moves its whole class of time.

    Args:
        profile: Profile of the machine, if it has one.
        breakdown: Class of time → seconds, as results have it.
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
    return Coverage(share, math.hypot(*by_source.values()) / plain)


def _error(entries: list[MeasuredValue]) -> float | None:
    """Largest relative error of the entries; None where none is stated or it is above `_KNOWN`."""
    most = max((e.relative_error for e in entries if e.relative_error is not None), default=None)
    return None if most is None or most > _KNOWN else most
