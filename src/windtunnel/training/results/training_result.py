"""What a training prediction returns. Units are in the names; everything converts to plain data and frames."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Int32s

TIERS = {"host": "host memory", "cxl": "CXL memory", "nvme": "drives"}


@dataclass(frozen=True, slots=True)
class Interval:
    """A multiplicative band around `step_time_s`. `basis` names the measured rows that it leans on."""

    level: float
    low: float
    high: float
    basis: str
    grade: str
    """measured | fitted | analytic | assumed."""
    rows: tuple[str, ...] = ()
    """Measured rows that count most, at most five a way of leaving out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """The stage that peaks highest. Bytes."""

    stage: int
    peak_allocated_bytes: float
    peak_reserved_bytes: float
    capacity_bytes: float
    at_peak: dict[str, float]
    """Tensor kind → bytes alive at the peak; sums to `peak_allocated_bytes`."""
    per_stage_allocated_bytes: tuple[float, ...]
    curve_time_s: Floats
    curve_bytes: Floats
    curve_by_kind: dict[str, Floats] = field(default_factory=dict)
    reserved_by_allocator_bytes: float = 0.0
    """Part of `peak_reserved_bytes` that the framework's allocator holds (what PyTorch reports as reserved)."""
    communication_buffer_bytes: float = 0.0
    context_bytes: float = 0.0
    allocator_retries: int = 0
    """Times the allocator had to return cached segments in two steps because the device was full; each stalls it."""
    host_bytes: float = 0.0
    """What one device keeps in host memory by offloading, on the stage that keeps most."""
    host_capacity_bytes: float = math.inf
    """One device's share of its node's memory."""
    tier_bytes: dict[str, float] = field(default_factory=dict)
    """What one device keeps elsewhere, on the stage that keeps most: tier (host, cxl, nvme) → bytes."""
    tier_capacity_bytes: dict[str, float] = field(default_factory=dict)
    """One device's share of these tiers."""
    allocated_interval: Interval | None = None
    reserved_interval: Interval | None = None
    """Bands around both peaks from residuals of measured ones."""
    fit_probability: float | None = None
    """How likely the reserved peak stays within the device's memory."""

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
    def fits(self) -> bool:
        """Whether the reserved peak stays within the device's memory, and what is offloaded within the host's."""
        return self.peak_reserved_bytes <= self.capacity_bytes and not self.overfull

    @property
    def elsewhere(self) -> tuple[tuple[str, float, float], ...]:
        """Memories outside the device: words for people, what one device keeps there, its share."""
        tiers = {"host": self.host_bytes} | self.tier_bytes
        room = {"host": self.host_capacity_bytes} | self.tier_capacity_bytes
        return tuple((TIERS[name], size, room.get(name, math.inf)) for name, size in tiers.items() if size)

    @property
    def overfull(self) -> tuple[tuple[str, float, float], ...]:
        """Those that do not hold what they should."""
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
    """−1 where it has none."""
    chunk: Int32s
    streams: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assumption:
    """One thing the input left open."""

    field: str
    value: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """One predicted optimizer step."""

    scenario_name: str
    step_time_s: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    model_tflops_per_device: float
    hardware_tflops_per_device: float
    mfu: float
    hfu: float
    peak_memory_allocated_bytes: float
    peak_memory_reserved_bytes: float
    memory_fits: bool
    breakdown: dict[str, float]
    """Class of time → seconds of the device that finishes last; sums to `step_time_s`."""
    interval: Interval
    memory: MemoryReport
    sensitivities: dict[str, float]
    """Resource → relative change of step time if it were 10 % larger (negative is faster)."""
    bound_by: str
    plan: dict[str, Any]
    """The plan with everything resolved (dp, schedule, sp, recompute …)."""
    num_devices: int
    num_micro_batches: int
    assumed: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    """Papers of the techniques that act, one line each."""
    techniques: tuple[str, ...] = ()
    """Their ids: those of the scenario, and those that its framework switches on."""
    trace: TraceEvents | None = None
    stages: tuple[dict[str, Any], ...] = ()
    """Per pipeline stage: layers, parameters, forward_s, backward_s, memory."""
    run: tuple[dict[str, Any], ...] = ()
    """Where steps of the run differ: per phase its share of the steps and of the time, step_time_s, tokens_per_s, mfu,
    memory, breakdown and what sets it apart. Figures of the result are means over the run, memory that of the fullest
    phase; plan, stages and trace are those of the steps that no phase claims, the first entry."""
    groups: tuple[dict[str, Any], ...] = ()
    """Per group of unlike devices: replicas, micro-batches, when its last pass ends (busy_s), memory."""
    lengths: dict[str, Any] = field(default_factory=dict)
    """Where documents differ in length: tokens of the simulated batch, padding, its slowest replica's work over the
    mean, how far steps of the drawn batches lie from it, and how many ranks shared a sequence."""
    scenario: dict[str, Any] = field(default_factory=dict)
    input_hash: str = ""
    version: str = ""
    simulated_in_s: float = 0.0
    mean_power_w: float = 0.0
    """Average watts of one device, 0 where the data sheet gives no TDP."""
    clock: float = 1.0
    """Clock over nominal that the power cap allows."""
    energy_per_token_j: float = 0.0
    """Joules of all devices per trained token."""
    model_flop_per_token: float = 0.0
    """FLOPs of the model per token, forward and backward, full attention, no recomputation."""
    attention_flop_per_token: float = 0.0
    """The attention part of it."""
    cost_per_million_tokens: float | None = None
    """In the currency of the device's price, None without one."""
    grades: dict[str, str] = field(default_factory=dict)
    """Figure → measured, fitted, analytic or assumed (`training.grades`)."""

    def flop_convention(self, name: str) -> dict[str, float]:
        """Model TFLOP/s per device and MFU as others count them.

        Args:
            name: `full` (ours: 6·matmul parameters + 12·L·h·s), `causal` (attention halved), `no_attention`
                (6·parameters), or `hardware` (what ran, recomputation included).

        Raises:
            ValueError: another name.
        """
        if name == "hardware":
            return {"tflops_per_device": self.hardware_tflops_per_device, "mfu": self.hfu}
        share = {"full": 0.0, "causal": 0.5, "no_attention": 1.0}
        if name not in share:
            raise ValueError(f"convention = {name}: must be full, causal, no_attention or hardware")
        ratio = 1.0
        if self.model_flop_per_token:
            ratio = 1.0 - share[name] * self.attention_flop_per_token / self.model_flop_per_token
        return {"tflops_per_device": self.model_tflops_per_device * ratio, "mfu": self.mfu * ratio}

    def to_dict(self, *, curves: bool = False) -> dict[str, Any]:
        """Plain data for `--json`; `curves` adds the memory curve and the trace."""
        from windtunnel.training.results.serialise import result_to_dict

        return result_to_dict(self, curves=curves)

    def to_frame(self) -> Any:
        """One-row pandas frame of the scalar figures and the breakdown."""
        import pandas as pd

        row = {k: v for k, v in self.to_dict().items() if isinstance(v, (int, float, str, bool))}
        row |= {f"breakdown.{k}": v for k, v in self.breakdown.items()}
        return pd.DataFrame([row])

    def figure(self) -> Any:
        """Plotly figure: timeline, memory curve and breakdown."""
        from windtunnel.training.results.figures import training_figure

        return training_figure(self)


def deltas(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    """Second less first, of every entry that differs, largest first; sums to the difference of the sums."""
    out = {name: b.get(name, 0.0) - a.get(name, 0.0) for name in [*a, *(name for name in b if name not in a)]}
    return {k: v for k, v in sorted(out.items(), key=lambda item: -abs(item[1])) if v}
