"""One training step: resolve, lower, simulate, account."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windtunnel import schedules
from windtunnel.cost.clock import StepWork, at_clock, capped_clock, mean_power_w
from windtunnel.cost.coefficients import Behaviour, Coefficients, behaviour, coefficients
from windtunnel.engine import simulate as run_engine
from windtunnel.errors import ProblemList
from windtunnel.parallel.precision import MATRIX_FORMAT
from windtunnel.parallel.resolve import ResolvedPlan, resolve
from windtunnel.program.tables import Timeline
from windtunnel.schedules.table import InstructionTable, ScheduleCosts
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques import applied
from windtunnel.techniques.base import Applied
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.account import breakdown, memory_report, static_memory
from windtunnel.training.assembly import STREAMS, TAGS
from windtunnel.training.comparable import describe
from windtunnel.training.grades import figure_grades
from windtunnel.training.interval import interval_of
from windtunnel.training.known import Known
from windtunnel.training.memory_interval import with_bands
from windtunnel.training.offload import host_bytes
from windtunnel.training.parts import Parts, build_parts
from windtunnel.training.results import Assumption, MemoryReport, TraceEvents, TrainingResult
from windtunnel.training.step import StepProgram, build_step


@dataclass(frozen=True, slots=True)
class Prepared:
    """A resolved step, before the engine runs it."""

    model: ModelSpec
    cluster: ClusterSpec
    training: TrainingSpec
    plan: ResolvedPlan
    coefficients: Coefficients
    behaviour: Behaviour
    parts: Parts
    table: InstructionTable
    program: StepProgram
    clock: float = 1.0


def prepare(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    techniques: tuple[Applied, ...] = (),
    problems: ProblemList | None = None,
    *,
    coefficient_overrides: dict[str, Any] | None = None,
    known: Known | None = None,
) -> Prepared:
    """Resolve the plan and build the step program at the clock that the power cap allows.

    `known` keeps what plans of one call share; the step is the same with and without.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    chosen = coefficients(training.framework, cluster.device)
    if coefficient_overrides:
        chosen = replace(chosen, **coefficient_overrides)
    clock = capped_clock(cluster.device, chosen, cluster.power_cap_w)
    return prepare_at(model, cluster, training, plan, techniques, problems, coefficient_overrides, clock, known)


@dataclass(frozen=True, slots=True)
class ResolvedStep:
    """A resolved plan with the cost of its parts, before there is a step program."""

    plan: ResolvedPlan
    coefficients: Coefficients
    behaviour: Behaviour
    techniques: tuple[Applied, ...]
    table: InstructionTable
    parts: Parts


def resolve_step(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    techniques: tuple[Applied, ...],
    problems: ProblemList,
    *,
    coefficient_overrides: dict[str, Any] | None = None,
    clock: float = 1.0,
    known: Known | None = None,
) -> ResolvedStep:
    """Decide everything that a plan leaves open, and cost its parts.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    how = behaviour(training.framework)
    chosen = coefficients(training.framework, cluster.device)
    if coefficient_overrides:
        chosen = replace(chosen, **coefficient_overrides)
    chosen = at_clock(cluster.device, chosen, clock)
    if cluster.num_devices > cluster.scale_up_domain:
        chosen = chosen.across_nodes()
    for technique in techniques:
        plan = technique.on_plan(plan)
    resolved = resolve(model, cluster, training, plan, how, problems)
    if resolved is None:
        problems.raise_if_any()
        raise AssertionError("resolve returned nothing without a problem")
    problems.raise_if_any()
    if resolved.tp > 1 and not any(t.technique.id == "tp-overlap" for t in techniques):
        if resolved.overlap_tp:
            knobs: dict[str, Any] = {"method": how.tp_overlap_method}
            if how.async_tp:
                knobs |= {"bulk": False, "late_sum": True, "comm_sms": 0}
            techniques = (*techniques, *applied(({"tp-overlap": knobs},)))
        elif resolved.tp_bulk_overlap:
            techniques = (*techniques, *applied(({"tp-overlap": {"pipeline": False}},)))
    table = schedules.build(resolved.schedule, resolved.pp, resolved.m, resolved.vpp)
    parts = build_parts(
        model, cluster, training, resolved, chosen, how, table.placement, techniques,
        split_backward=table.split_backward, known=known,
    )  # fmt: skip
    return ResolvedStep(resolved, chosen, how, techniques, table, parts)


def options_of(
    training: TrainingSpec, plan: ResolvedPlan, how: Behaviour, chosen: Coefficients, techniques: tuple[Applied, ...]
) -> StepOptions:
    """How data-parallel traffic runs, after the techniques have had their say."""
    grad_bytes = how.wire_bytes(training.precision, training.grad_reduce_precision)
    # FSDP under a pipeline reduces once, after the last micro-batch
    every = plan.zero == 2 and plan.pp == 1 and plan.m > 1 and training.gradient_accumulation_sync
    options = StepOptions(
        plan.overlap_grad_reduce, plan.overlap_param_gather, plan.overlap_p2p, plan.fsdp_prefetch,
        grad_bytes=grad_bytes, sync_every_micro_batch=training.gradient_accumulation_sync,
        reduce_every_micro_batch=every, gather_exposed=min(chosen.gather_exposed, 1.0),
    )  # fmt: skip
    for technique in techniques:
        options = technique.on_step(options)
    return options


def prepare_at(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    techniques: tuple[Applied, ...],
    problems: ProblemList | None,
    coefficient_overrides: dict[str, Any] | None,
    clock: float,
    known: Known | None = None,
) -> Prepared:
    """One step program at one clock.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    problems = problems if problems is not None else ProblemList()
    step = resolve_step(
        model, cluster, training, plan, techniques, problems, coefficient_overrides=coefficient_overrides, clock=clock,
        known=known,
    )  # fmt: skip
    resolved, parts, table = step.plan, step.parts, step.table
    if schedules.describe(resolved.schedule).uses_costs:
        table = schedules.build(resolved.schedule, resolved.pp, resolved.m, resolved.vpp, _costs(parts, table))
    options = options_of(training, resolved, step.behaviour, step.coefficients, step.techniques)
    program = build_step(parts, table, resolved, cluster, training, step.coefficients, step.behaviour, options)
    return Prepared(
        model, cluster, training, resolved, step.coefficients, step.behaviour, parts, table, program, clock
    )  # fmt: skip


def power_of(x: Prepared, step_s: float) -> float:
    """Mean watts of one device."""
    device = x.cluster.device
    if not device.tdp_w:
        return 0.0
    per_device = x.plan.m / x.plan.pp
    work = StepWork(
        x.parts.hardware_flop * x.plan.m * x.plan.dp / x.cluster.num_devices,
        float(x.parts.hbm_bytes.sum()) * per_device, float((x.parts.up_bytes + x.parts.out_bytes).sum()) * per_device,
        MATRIX_FORMAT[x.training.precision],
    )  # fmt: skip
    return mean_power_w(device, x.coefficients, work, step_s)


def _costs(parts: Parts, table: InstructionTable) -> ScheduleCosts:
    """Seconds per (stage, chunk) for schedules that arrange themselves by time."""
    out = np.zeros((3, table.p, table.v))
    out[:, table.placement[:, 0], table.placement[:, 1]] = parts.seconds
    return ScheduleCosts(out[0], out[1], out[2])


def simulate_step(
    prepared: Prepared,
    *,
    name: str = "",
    assumed: tuple[Assumption, ...] = (),
    trace: bool = False,
    memory: bool = True,
    sensitivities: dict[str, float] | None = None,
    started: float | None = None,
) -> TrainingResult:
    """Run the engine and account for time and memory."""
    begun = time.perf_counter() if started is None else started
    x = prepared
    timeline = run_engine(x.program.tasks, x.program.streams, x.program.resources)
    step = timeline.makespan_s
    devices = x.cluster.num_devices
    tokens = float(x.training.global_batch) * x.training.seq_len
    model_flop = x.parts.graph.model_flop_per_token * tokens
    if x.training.phase == "lora":  # no weight gradients for frozen matrices
        model_flop *= 2.0 / 3.0
    hardware_flop = x.parts.hardware_flop * x.plan.m * x.plan.dp
    peak = x.cluster.device.peak(MATRIX_FORMAT[x.training.precision])
    shares = breakdown(x.program, timeline, x.parts, x.table)
    report = _memory(x, timeline) if memory else _no_memory(x)
    band = interval_of(describe(x.training, x.cluster, x.model, x.plan), step)
    watts = power_of(x, step)
    warnings = _warnings(x, report)
    if x.cluster.power_cap_w is not None and watts > 1.01 * x.cluster.power_cap_w:
        cap = f"cluster.power_cap_w {x.cluster.power_cap_w:g} W is not reached"
        warnings = (*warnings, f"{cap}: at the lowest clock simulated, {x.clock:.0%}, a device draws {watts:.0f} W")
    price = x.cluster.price_per_device_hour or x.cluster.device.price_per_hour
    return TrainingResult(
        scenario_name=name,
        step_time_s=step,
        tokens_per_s=tokens / step,
        tokens_per_s_per_device=tokens / step / devices,
        model_tflops_per_device=model_flop / step / devices / 1e12,
        hardware_tflops_per_device=hardware_flop / step / devices / 1e12,
        mfu=model_flop / step / devices / peak,
        hfu=hardware_flop / step / devices / peak,
        peak_memory_allocated_bytes=report.peak_allocated_bytes,
        peak_memory_reserved_bytes=report.peak_reserved_bytes,
        memory_fits=report.fits,
        breakdown=shares,
        interval=band,
        memory=report,
        sensitivities=sensitivities or {},
        bound_by=_bound_by(shares),
        plan=_plan_dict(x.plan),
        num_devices=devices,
        num_micro_batches=x.plan.m,
        assumed=assumed,
        warnings=warnings,
        trace=_trace(x, timeline) if trace else None,
        stages=_stages(x, report),
        model_flop_per_token=x.parts.graph.model_flop_per_token,
        attention_flop_per_token=x.parts.graph.attention_flop_per_token,
        mean_power_w=watts,
        clock=x.clock,
        energy_per_token_j=watts * devices * step / tokens,
        grades=figure_grades(band, report, x.cluster),
        cost_per_million_tokens=None if price is None else price * devices * step / 3600.0 / tokens * 1e6,
        simulated_in_s=time.perf_counter() - begun,
    )


def _no_memory(x: Prepared) -> MemoryReport:
    """Stands in where only time is asked for."""
    zero = np.zeros(1)
    return MemoryReport(0, 0.0, 0.0, x.cluster.device.memory_bytes, {}, (), zero, zero)


def step_time(prepared: Prepared) -> float:
    """Seconds of the step alone (sensitivities, fitting, search)."""
    return run(prepared).makespan_s


def run(prepared: Prepared) -> Timeline:
    """When every task of a step begins and ends."""
    return run_engine(prepared.program.tasks, prepared.program.streams, prepared.program.resources)


def _memory(x: Prepared, timeline: Timeline) -> MemoryReport:
    stage_of = x.table.placement[:, 0].astype(np.int64)
    static = static_memory(x.parts, x.plan, x.training, x.behaviour, stage_of)
    report = memory_report(
        x.program,
        timeline,
        x.parts,
        x.table,
        static,
        x.cluster.device.memory_bytes,
        x.plan,
        x.training,
        x.behaviour,
    )
    if x.plan.offload.tier == "host":
        report = replace(
            report,
            host_bytes=float(host_bytes(x.parts, x.plan, x.table, static.host_bytes).max()),
            host_capacity_bytes=x.cluster.host_memory_bytes / x.cluster.devices_per_node,
        )
    return with_bands(report, x.training.framework, x.cluster, x.model)


def _warnings(x: Prepared, memory: MemoryReport) -> tuple[str, ...]:
    out = []
    if memory.host_bytes > memory.host_capacity_bytes:
        needs, has = memory.host_bytes / 2**30, memory.host_capacity_bytes / 2**30
        out.append(
            f"does not fit: offloading needs {needs:.0f} GiB of host memory a device, and the node has {has:.0f}"
        )
    share = memory.peak_reserved_bytes / memory.capacity_bytes
    if share > 1:
        over = (memory.peak_reserved_bytes - memory.capacity_bytes) / 2**30
        largest = sorted(memory.at_peak.items(), key=lambda kv: -kv[1])[:2]
        named = " and ".join(f"{kind} {size / 2**30:.1f} GiB" for kind, size in largest)
        out.append(
            f"does not fit: stage {memory.stage} needs {over:.1f} GiB more than the device has; largest are {named}"
        )
    elif memory.allocator_retries:
        times = memory.allocator_retries
        out.append(f"the allocator has to release and search {times} times; that time is not in the step")
    elif share > 0.95:
        out.append("within 5 % of device memory: allocator retries are likely and are not in the step time")
    return tuple(out)


def _bound_by(shares: dict[str, float]) -> str:
    groups = {
        "matrix throughput": ("gemm", "recompute"), "attention kernels": ("attention",),
        "memory bandwidth": ("memory bound", "scan", "optimizer"), "tensor-parallel communication": ("exposed tp",),
        "data-parallel communication": ("exposed dp",), "pipeline": ("bubble", "exposed pp"),
        "expert communication": ("exposed ep",), "context-parallel communication": ("exposed cp",),
        "host": ("host",), "contention": ("slowed by overlap",),
    }  # fmt: skip
    return max(groups, key=lambda g: sum(shares.get(name, 0.0) for name in groups[g]))


def _plan_dict(plan: ResolvedPlan) -> dict[str, Any]:
    out: dict[str, Any] = {name: getattr(plan, name) for name in ResolvedPlan.__slots__}
    out["recompute"] = plan.recompute.model_dump(mode="json")
    out["offload"] = plan.offload.model_dump(mode="json")
    out["stage_layers"] = list(plan.stage_layers)
    out["order"] = list(plan.order)
    return out


def _stages(x: Prepared, memory: MemoryReport) -> tuple[dict[str, Any], ...]:
    stage_of = x.table.placement[:, 0]
    out = []
    for s in range(x.plan.pp):
        mine = np.flatnonzero(stage_of == s)
        out.append(
            {
                "stage": s,
                "layers": int(x.parts.layers[mine].sum()),
                "parameters": float((x.parts.dense_params + x.parts.expert_params)[mine].sum()),
                "forward_s": float(x.parts.seconds[0, mine].sum()),
                "backward_s": float(x.parts.seconds[1:, mine].sum()),
                "memory_bytes": memory.per_stage_allocated_bytes[s] if memory.per_stage_allocated_bytes else 0.0,
            }
        )
    return tuple(out)


def _trace(x: Prepared, timeline: Timeline) -> TraceEvents:
    row = x.program.row
    has = row >= 0
    safe = np.maximum(row, 0)
    return TraceEvents(
        timeline.start_s, timeline.end_s, x.program.stage, (x.program.tasks.stream_idx % len(STREAMS)).astype(np.int32),
        x.program.tasks.tag, np.where(has, x.table.micro_batch[safe], -1).astype(np.int32),
        np.where(has, x.table.chunk[safe], -1).astype(np.int32), STREAMS, TAGS,
    )  # fmt: skip


def memory_of(prepared: Prepared, timeline: Timeline | None = None) -> MemoryReport:
    """Memory of a step alone; `timeline` where the step has been run already."""
    return _memory(prepared, timeline or run(prepared))
