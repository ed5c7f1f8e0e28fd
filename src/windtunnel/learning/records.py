"""A curve on the clock, and figures of an algorithm. Units are in the names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windtunnel.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCurve:
    """A learned curve with the clock of the target; every array has one entry a point."""

    algorithm: str
    """Label of its algorithm."""
    seed: int
    step: Ints
    """Local steps of a worker."""
    loss: Floats
    metric: Floats
    """NaN where the task has none."""
    time_s: Floats
    """Simulated seconds of the target; NaN where nothing says how long a step takes."""
    bytes: Floats
    """That one worker has sent, of the target's messages; with a server, sent and received."""
    joules: Floats
    """Of all workers; NaN where nothing says their watts."""
    diverged_at: int | None = None
    """Local step whose loss was not finite; the curve ends before it."""

    def points(self) -> list[dict[str, Any]]:
        """One record a point."""
        names = ("step", "time_s", "bytes", "joules", "loss", "metric")
        columns = (self.step, self.time_s, self.bytes, self.joules, self.loss, self.metric)
        return [dict(zip(names, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmFigures:
    """Figures of one algorithm over its seeds."""

    label: str
    id: str
    family: str
    knobs: dict[str, Any]
    driver: str
    loss: float | None
    """At the end, mean of the seeds; None where none got that far."""
    loss_low: float | None
    loss_high: float | None
    metric: float | None
    gap: float | None
    """Loss at the end over that of data parallelism, less one; None without it."""
    hours: float | None
    """Simulated, of the target."""
    bytes_per_worker: float
    bytes_per_worker_step: float
    bytes_by_link: dict[str, float]
    """Link → bytes of all workers."""
    kwh: float | None
    cost: float | None
    utilisation: float | None
    """Share of the workers' time in steps."""
    rounds: int
    """Exchanges, or steps of the server."""
    staleness: dict[str, Any]
    """mean, max and histogram {steps of the server since the fetch: share}; empty where there is none."""
    time_to_target_s: float | None
    """Mean of the seeds that reach it; None where one does not."""
    time_to_target_band_s: tuple[float, float] | None
    reached: int
    """Seeds that reach the target."""
    diverged: tuple[tuple[int, int], ...]
    """(seed, local step) of runs whose loss was not finite."""
    resolved: bool | None
    """Whether the proxy can order it; None where it was not asked."""
    reasons: tuple[str, ...] = ()
    """Why it cannot."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}
