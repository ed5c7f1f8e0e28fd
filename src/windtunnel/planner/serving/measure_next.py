"""What a search found at both ends of the interval, and what one measured run would settle between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from windtunnel.specs.serving import SloSpec

WORTH = 0.95
"""A measurement is proposed where it leaves less than this share of how far a part may exceed its prediction."""


class Simulated(Protocol):
    """A simulated deployment that keeps the objective at the central prediction."""

    @property
    def plan(self) -> dict[str, Any]:
        """Its axes and replicas."""

    @property
    def load(self) -> float:
        """Requests a second, or in flight."""

    @property
    def values(self) -> dict[str, float]:
        """All metrics that are known."""

    @property
    def quantiles(self) -> dict[str, float]:
        """Seconds of each part of the objective that the wanted share of requests stays below."""

    @property
    def high(self) -> dict[str, float]:
        """By how much measured times may exceed predicted ones."""

    @property
    def high_after(self) -> dict[str, float]:
        """The same once one instance has been measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What the objective takes at the central prediction and at the upper end of its interval."""

    central_devices: int
    upper_devices: int | None
    """None: no candidate keeps the objective there."""
    central: float
    """The first objective."""
    upper: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingMeasurement:
    """The one run that would settle what the objective takes."""

    what: str
    """What to measure, in words."""
    command: str
    """Writes its launch files and its load; SCENARIO stands for the file of the scenario."""
    high: dict[str, float]
    """Part of the objective → by how much its measured time may exceed the prediction now."""
    high_after: dict[str, float]
    """The same once the run has been measured and predictions are scaled by it."""
    devices_after: int
    """Devices that keep the objective at the upper end then, at most, if the run confirms the prediction."""


def measure_next(
    ends: Ends, central: Simulated, simulated: Sequence[Simulated], slo: SloSpec, engine: str
) -> ServingMeasurement | None:
    """One load test of one instance of the best at the central prediction, and what it would leave.

    Deployments that the search simulated are evaluated anew by the narrower interval; others might do with fewer
    devices. None where both ends agree, and where the test would leave the interval as it is.

    Args:
        ends: devices at both ends.
        central: the best at the central prediction.
        simulated: all that keep the objective there.
        slo: the objective.
        engine: that launch files are written for.
    """
    parts = [n for n in central.high_after if getattr(slo, n) is not None]
    narrower = any(central.high_after[n] - 1.0 < WORTH * (central.high[n] - 1.0) for n in parts)
    if ends.central_devices == ends.upper_devices or not narrower:
        return None
    kept = [one for one in simulated if _keeps(one, slo)]
    counts = [int(one.values["devices"]) for one in kept]
    if ends.upper_devices is not None:
        counts.append(ends.upper_devices)
    if not counts:
        return None
    return ServingMeasurement(
        what="A load test of one instance, at its share of the load",
        command=f"windtunnel plan SCENARIO --set search.slo_at=central --export {engine}",
        high={n: central.high[n] for n in parts},
        high_after={n: central.high_after[n] for n in parts},
        devices_after=max(min(counts), ends.central_devices),
    )


def _keeps(one: Simulated, slo: SloSpec) -> bool:
    """Whether each part of the objective holds at the upper end once one instance has been measured."""
    limits = {n: limit for n in ("ttft_s", "tpot_s", "e2e_s") if (limit := getattr(slo, n)) is not None}
    return all(one.quantiles[n] * one.high_after.get(n, one.high.get(n, 1.0)) <= v for n, v in limits.items())
