"""Serving coefficients under a fit: values by name, and with other values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windtunnel.calibration.server_priors import PRIORS
from windtunnel.cost.serving import ServingCoefficients


def value_of(c: ServingCoefficients, name: str) -> float:
    """A coefficient by its dotted name; 0 where it has none."""
    field, _, key = name.partition(".")
    own: Any = getattr(c, field)
    return float(own.get(key, 0.0)) if key else float(own)


def scaled(c: ServingCoefficients, logs: Mapping[str, float]) -> ServingCoefficients:
    """Coefficients times their factors, none beyond its roof."""
    values = {name: value_of(c, name) for name in logs}
    return with_values(c, {n: min(v * math.exp(logs[n]), max(PRIORS[n][1], v)) for n, v in values.items() if v > 0.0})


def with_values(c: ServingCoefficients, values: Mapping[str, float]) -> ServingCoefficients:
    """A copy with other values."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        field, _, key = name.partition(".")
        if key:
            changed[field] = {**changed.get(field, getattr(c, field)), key: value}
        else:
            changed[field] = value
    return replace(c, **changed)
