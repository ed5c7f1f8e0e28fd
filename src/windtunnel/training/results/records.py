"""Records inside a training result: band of a figure, memory, trace events, assumptions. Units are in the names."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Int32s

TIERS = {"host": "host memory", "cxl": "CXL memory", "nvme": "drives"}
"""Memory tier outside the device → name for people."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A band around a predicted figure."""

    level: float
    """Probability that the band is meant to hold."""
    low: float
    """Lower end, in the unit of the figure."""
    high: float
    """Upper end, in the unit of the figure."""
    basis: str
    """The measured rows that the band rests on, in words."""
    grade: str
    """measured | fitted | analytic | assumed."""
    rows: tuple[str, ...] = ()
    """Measured rows that count most, at most five for each way of leaving rows out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeToTrain:
    """How long training takes until its target, where `training.steps_to_converge` is stated."""

    steps: float
    """Median of the steps that were stated."""
    minutes: float
    low: float
    """Lower end of its interval, minutes."""
    high: float
    level: float
    """Probability that the interval is meant to hold."""
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NextMeasurement:
    """The one measurement, or the one setting to state, that would narrow the band of a step time most."""

    kind: str
    """kernels (rates of one device), step (one measured step), collective (one all-reduce), setting (stating one)."""
    what: str
    """What to measure or to state, as the start of a sentence."""
    command: str
    """Command line; SCENARIO stands for the file of the scenario."""
    half_width: float
    """Half the logarithm of the band's upper over its lower end."""
    half_width_after: float
    """The same for the band that the measurement would leave, by the code that makes bands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """Memory of the stage that peaks highest, in bytes."""

    stage: int
    peak_allocated_bytes: float
    peak_reserved_bytes: float
    capacity_bytes: float
    at_peak: dict[str, float]
    """Tensor kind → bytes alive at the peak; the values sum to `peak_allocated_bytes`."""
    per_stage_allocated_bytes: tuple[float, ...]
    """Allocated peak of each pipeline stage."""
    curve_time_s: Floats
    """Seconds into the step at which memory changes, shape (n,)."""
    curve_bytes: Floats
    """Allocated bytes from each of these times on, shape (n,)."""
    curve_by_kind: dict[str, Floats] = field(default_factory=dict)
    """Tensor kind → its part of the curve, shape (n,)."""
    reserved_by_allocator_bytes: float = 0.0
    """Part of `peak_reserved_bytes` that the framework's allocator holds (PyTorch reports it as reserved)."""
    wanted_by_allocator_bytes: float = 0.0
    """What it would reserve on a device without a limit; more than the device has where it would return segments."""
    communication_buffer_bytes: float = 0.0
    context_bytes: float = 0.0
    allocator_retries: int = 0
    """Times the allocator had to return cached segments in two steps because the device was full; each stalls it."""
    host_bytes: float = 0.0
    """Bytes that one device keeps in host memory by offloading, on the stage that keeps most."""
    host_capacity_bytes: float = math.inf
    """One device's share of its node's memory."""
    tier_bytes: dict[str, float] = field(default_factory=dict)
    """Tier (host, cxl, nvme) → bytes that one device keeps there, on the stage that keeps most."""
    tier_capacity_bytes: dict[str, float] = field(default_factory=dict)
    """Tier → bytes of one device's share of it."""
    allocated_interval: Interval | None = None
    """Band around the allocated peak, from errors of predictions of measured peaks."""
    reserved_interval: Interval | None = None
    """Band around the reserved peak, from errors of predictions of measured peaks."""
    fit_probability: float | None = None
    """Probability that the reserved peak stays within the device's memory."""

    @classmethod
    def empty(cls, capacity_bytes: float) -> MemoryReport:
        """A report without an account, where only the time of a step is asked for."""
        return cls(
            stage=0,
            peak_allocated_bytes=0.0,
            peak_reserved_bytes=0.0,
            capacity_bytes=capacity_bytes,
            at_peak={},
            per_stage_allocated_bytes=(),
            curve_time_s=np.zeros(1),
            curve_bytes=np.zeros(1),
        )

    @property
    def likely(self) -> bool:
        """Whether the chances to fit are at least even; true where no probability is known."""
        return self.fit_probability is None or self.fit_probability >= 0.5

    @property
    def fits(self) -> bool:
        """Whether device memory holds the reserved peak, at even chances or better, and tiers what is offloaded.

        `train`, `plan`, `fit` and `advise` all read this.
        """
        return self.likely and self.peak_reserved_bytes <= self.capacity_bytes and not self.overfull

    @property
    def elsewhere(self) -> tuple[tuple[str, float, float], ...]:
        """Memory tiers outside the device: (name for people, bytes that one device keeps there, bytes of its share)."""
        tiers = {"host": self.host_bytes} | self.tier_bytes
        room = {"host": self.host_capacity_bytes} | self.tier_capacity_bytes
        return tuple((TIERS[name], size, room.get(name, math.inf)) for name, size in tiers.items() if size)

    @property
    def overfull(self) -> tuple[tuple[str, float, float], ...]:
        """Entries of `elsewhere` whose share is too small."""
        return tuple(row for row in self.elsewhere if row[1] > row[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvents:
    """The simulated step as rows, for Perfetto and the HTML timeline. Shapes (n,)."""

    start_s: Floats
    end_s: Floats
    stage: Int32s
    stream: Int32s
    """Index into `streams` (names such as "compute", "p2p", "dp")."""
    tag: Int32s
    """Index into `tags` ("forward", "backward", "weight grad", "optimizer", "dp reduce-scatter", …)."""
    micro_batch: Int32s
    """−1 where the task belongs to none."""
    chunk: Int32s
    """−1 where the task belongs to none."""
    streams: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assumption:
    """One setting that the input left open."""

    field: str
    """Path of the setting in a scenario."""
    value: str
    """The value taken."""
    why: str
    """Whose default it is, or the reason for it."""
