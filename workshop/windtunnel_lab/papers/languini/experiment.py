"""Tokens of accelerator hours as published runs took them, and where curves would cross."""

from __future__ import annotations

import math

from windtunnel.laws.published.languini import crossing
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def tokens() -> float:
    """Largest relative difference between what a run trains on and throughput times hours."""
    differences = []
    for hours, rate, steps, sequences in fixed("runs"):
        differences.append(abs(steps * sequences * fixed("sequence") / (rate * 3600.0 * hours) - 1.0))
    return float(max(differences))


def crossing_hours() -> float:
    """Hours at which the published curves meet; infinity while their slopes are not at hand."""
    slopes = fixed("slopes")
    return math.inf if slopes is None else crossing(*map(tuple, slopes))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"tokens": lambda _: tokens(), "crossing": lambda _: crossing_hours()}
