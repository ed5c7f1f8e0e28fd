"""Bits of compressed extra-gradient to a distance, next to plain extra-gradient, on a game."""

from __future__ import annotations

from windtunnel.learning.records import TimedCurve
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def bit_ratio(values: Values) -> float:
    """Bytes to a thousandth of the first loss: plain extra-gradient over random entries; 0 if these never get there."""
    section = {
        "task": "bilinear",
        "workers": fixed("workers"),
        "steps": fixed("steps"),
        "inner": "sgd",
        "lr": fixed("lr"),
        "evaluate_every": 10,
        "algorithms": ["extragradient", {"masha": {"compressor": {"randk": {"fraction": values["share"]}}}}],
    }
    plain, compressed = (_bytes_to(curve) for curve in learned(section).curves)
    return plain / compressed


def _bytes_to(curve: TimedCurve) -> float:
    there = curve.loss <= 1e-3 * curve.loss[0]
    return float(curve.bytes[there.argmax()]) if there.any() else float("inf")


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "bits": bit_ratio,
    }
