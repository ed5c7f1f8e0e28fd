"""Result of a training prediction. Units are in the names; everything converts to plain data and data frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from windtunnel.charts.chart import Panels
from windtunnel.extras import extra
from windtunnel.training.results.charts import training_charts
from windtunnel.training.results.records import (
    Assumption,
    Interval,
    MemoryReport,
    NextMeasurement,
    TimeToTrain,
    TraceEvents,
)
from windtunnel.training.results.serialise import result_to_dict


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
    """Class of time → seconds on the device that finishes last; the values sum to `step_time_s`."""
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
    """Papers of the techniques that take part, one line each."""
    techniques: tuple[str, ...] = ()
    """Ids of the techniques: those of the scenario, and those that its framework switches on."""
    trace: TraceEvents | None = None
    stages: tuple[dict[str, Any], ...] = ()
    """Per pipeline stage: layers, parameters, forward_s, backward_s, memory."""
    run: tuple[dict[str, Any], ...] = ()
    """Phases of a run whose steps differ: for each its share of the steps and of the time, step_time_s, tokens_per_s,
    mfu, memory, breakdown and the settings that differ. The first entry stands for the steps that no phase claims;
    plan, stages and trace of the result are its own. Other figures of the result are means over the run; memory is that
    of the fullest phase."""
    groups: tuple[dict[str, Any], ...] = ()
    """Per group of a heterogeneous cluster: replicas, micro-batches, end of its last pass (busy_s), memory."""
    lengths: dict[str, Any] = field(default_factory=dict)
    """Where documents differ in length: tokens and padding of the simulated batch, work of its slowest replica over the
    mean, deviation of the steps of the drawn batches from it, and how many ranks shared a sequence."""
    scenario: dict[str, Any] = field(default_factory=dict)
    input_hash: str = ""
    version: str = ""
    simulated_in_s: float = 0.0
    mean_power_w: float = 0.0
    """Average watts of one device, 0 where the data sheet gives no TDP."""
    clock: float = 1.0
    """Share of the nominal clock that the power cap allows."""
    energy_per_token_j: float = 0.0
    """Joules of all devices per trained token."""
    model_flop_per_token: float = 0.0
    """FLOPs of the model per token, forward and backward, full attention, no recomputation."""
    attention_flop_per_token: float = 0.0
    """FLOPs of attention per token, a part of `model_flop_per_token`."""
    cost_per_million_tokens: float | None = None
    """In the currency of the device's price, None without one."""
    grades: dict[str, str] = field(default_factory=dict)
    """Figure → measured, fitted, analytic or assumed (`training.results.grades`)."""
    measure_next: NextMeasurement | None = None
    """What would narrow the interval most; None where it is narrow, or where nothing would narrow it by much."""
    time_to_train: TimeToTrain | None = None
    """Minutes until the target, where `training.steps_to_converge` says how many steps it takes."""

    def to_dict(self, *, curves: bool = False) -> dict[str, Any]:
        """Plain data as `--json` prints it; `curves` adds the memory curve and the trace."""
        return result_to_dict(self, curves=curves)

    def to_frame(self) -> Any:
        """One-row pandas frame of the scalar figures and the breakdown."""
        pd = extra("pandas")

        row = {k: v for k, v in self.to_dict().items() if isinstance(v, (int, float, str, bool))}
        row |= {f"breakdown.{k}": v for k, v in self.breakdown.items()}
        return pd.DataFrame([row])

    def figure(self) -> Panels:
        """Charts of the timeline (where a trace was kept), the memory curve and the breakdown.

        A notebook shows them; `figure().save("step.svg")` writes them, `figure().spec()` is their Vega-Lite
        specification.
        """
        return training_charts(self)

    def _repr_html_(self) -> str:
        from windtunnel.training.results.notebook import html

        return html(self)

    def __repr__(self) -> str:
        from windtunnel.training.results.notebook import line

        return line(self)
