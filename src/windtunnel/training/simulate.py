"""One training step: run the engine on its program, account for time and memory."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.cost.clock import StepWork, mean_power_w
from windtunnel.engine import simulate as run_engine
from windtunnel.parallel.precision import MATRIX_FORMAT
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.tables import Timeline
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.plan import CarriedSwitches, Tier
from windtunnel.specs.switches import switches_of
from windtunnel.training.accounting.breakdown import breakdown, last_compute_s
from windtunnel.training.memory.memory_inputs import MemoryInputs
from windtunnel.training.memory.memory_report import memory_report
from windtunnel.training.memory.static_memory import StaticMemory, static_memory
from windtunnel.training.offload.memory_tiers import capacity_bytes
from windtunnel.training.results.grades import figure_grades
from windtunnel.training.results.records import Assumption, MemoryReport, TraceEvents
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.offload_tasks import kept_elsewhere
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.task_builder import STREAMS, TAGS
from windtunnel.training.uncertainty.comparable_runs import describe
from windtunnel.training.uncertainty.memory_interval import with_bands
from windtunnel.training.uncertainty.profile_coverage import coverage_of
from windtunnel.training.uncertainty.step_time_interval import interval_of


def power_of(x: PreparedStep, step_s: float) -> float:
    """Mean watts of one device."""
    drawn = sum(g.cluster.num_devices * _power_w(g, step_s) for g in x.members)
    return drawn / x.cluster.num_devices


def _power_w(x: PreparedStep, step_s: float) -> float:
    """Mean watts of one device of one group."""
    device = x.cluster.device
    if not device.tdp_w:
        return 0.0
    per_device = x.plan.m / x.plan.copies / len(x.own_stages)
    work = StepWork(
        _hardware_flop(x) / x.cluster.num_devices,
        float(x.stages.work.hbm_bytes.sum()) * per_device,
        float((x.stages.work.scale_up_bytes + x.stages.work.scale_out_bytes).sum()) * per_device,
        MATRIX_FORMAT[x.training.precision],
    )
    return mean_power_w(device, x.coefficients, work, step_s)


def _hardware_flop(x: PreparedStep) -> float:
    """FLOPs that run in a step, of all devices."""
    if x.batch:
        return x.batch.hardware_flop
    return x.stages.hardware_flop * x.plan.m * x.plan.dp * _share_run(x.stages, x.schedule)


def _share_run(parts: StageCosts, table: InstructionTable) -> float:
    """Share of a model's FLOPs that micro-batches run which skip parts of it."""
    if table.runs is None:
        return 1.0
    flop = np.array(
        [sum(n * sum(parts.segment_times[s].flop for s in set(own)) for own, n in use) for use in parts.uses]
    )
    return float((flop * table.runs.mean(axis=0)).sum() / flop.sum())


def simulate_step(
    prepared: PreparedStep,
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
    tokens = x.batch.tokens if x.batch else float(x.training.global_batch) * x.training.seq_len
    model_flop = (x.batch.model_flop_per_token if x.batch else x.stages.graph.model_flop_per_token) * tokens
    if x.training.phase == "lora":  # no weight gradients for frozen matrices
        model_flop *= 2.0 / 3.0
    if x.training.gradients == "zeroth_order":  # two forward passes
        model_flop *= 2.0 / 3.0
    hardware_flop = sum(_hardware_flop(g) for g in x.members)
    number = MATRIX_FORMAT[x.training.precision]
    peak = sum(g.cluster.num_devices * g.cluster.device.peak(number) for g in x.members) / devices
    last = max(x.members, key=lambda g: last_compute_s(g.program, timeline))
    shares = breakdown(last.program, timeline, last.stages)
    reports = [_memory(g, timeline) if memory else MemoryReport.empty(g.cluster.device.memory_bytes) for g in x.members]
    report = max(reports, key=lambda r: r.peak_reserved_bytes / r.capacity_bytes)
    bands = [
        interval_of(
            describe(g.training, g.cluster, g.model, g.plan), step, coverage_of(g.cluster.device.profile, shares)
        )
        for g in x.members
    ]
    band = max(bands, key=lambda b: b.high / b.low)
    watts = power_of(x, step)
    drawn_w = [_power_w(g, step) for g in x.members]
    warnings: tuple[str, ...] = ()
    for g, own, drawn in zip(x.members, reports, drawn_w, strict=True):
        where = f"{g.cluster.name}: " if x.groups else ""
        warnings += tuple(where + text for text in _warnings(own))
        cap_w = g.cluster.power_cap_w
        if cap_w is not None and drawn > 1.01 * cap_w:
            cap = f"{where}cluster.power_cap_w {cap_w:g} W is not reached"
            text = f"{cap}: at the lowest clock simulated, {g.clock:.0%}, a device draws {drawn:.0f} W"
            warnings = (*warnings, text)
    price = _mean_price(x)
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
        memory_fits=all(own.fits for own in reports),
        breakdown=shares,
        interval=band,
        memory=report,
        sensitivities=sensitivities or {},
        bound_by=bound_by(shares),
        plan=_plan_dict(x),
        num_devices=devices,
        num_micro_batches=x.plan.m,
        assumed=assumed,
        warnings=warnings,
        trace=_trace(x, timeline) if trace else None,
        stages=sum((_stages(g, own, grouped=bool(x.groups)) for g, own in zip(x.members, reports, strict=True)), ()),
        groups=tuple(_group(g, own, timeline) for g, own in zip(x.groups, reports, strict=False)),
        lengths=x.batch.summary if x.batch else {},
        model_flop_per_token=x.stages.graph.model_flop_per_token,
        attention_flop_per_token=x.stages.graph.attention_flop_per_token,
        mean_power_w=watts,
        clock=min(g.clock for g in x.members),
        energy_per_token_j=watts * devices * step / tokens,
        grades=figure_grades(band, report, x.cluster),
        cost_per_million_tokens=None if price is None else price * devices * step / 3600.0 / tokens * 1e6,
        simulated_in_s=time.perf_counter() - begun,
    )


def _mean_price(x: PreparedStep) -> float | None:
    """Of a device-hour; None where one of the groups has no price."""
    prices = [g.cluster.price_per_device_hour or g.cluster.device.price_per_hour for g in x.members]
    if any(price is None for price in prices):
        return None
    costs = [g.cluster.num_devices * (price or 0.0) for g, price in zip(x.members, prices, strict=True)]
    return sum(costs) / sum(g.cluster.num_devices for g in x.members)


def step_time(prepared: PreparedStep) -> float:
    """Seconds of the step alone (sensitivities, fitting, search)."""
    return run(prepared).makespan_s


def run(prepared: PreparedStep) -> Timeline:
    """When every task of a step begins and ends."""
    return run_engine(prepared.program.tasks, prepared.program.streams, prepared.program.resources)


def _memory(x: PreparedStep, timeline: Timeline) -> MemoryReport:
    stage_of = x.schedule.placement[:, 0].astype(np.int64)
    static = static_memory(x.stages, x.plan, x.training, x.behaviour, stage_of)
    inputs = MemoryInputs(x.stages, x.plan, x.training, x.behaviour, x.schedule)
    report = memory_report(inputs, static, x.program, timeline, x.cluster.device.memory_bytes)
    if x.plan.offload.any:
        report = replace(report, **_elsewhere(x, static))
    return with_bands(report, x.training.framework, x.cluster, x.model)


def _elsewhere(x: PreparedStep, static: StaticMemory) -> dict[str, Any]:
    """What one device keeps in each memory of its node, and its share of them: fields of the report."""
    offload, own = x.plan.offload, x.own_stages
    kept = {"activations": kept_elsewhere(x.stages, x.plan, x.schedule)} | static.elsewhere
    tiers: dict[str, float] = {}
    for tier in ("host", "cxl", "nvme"):
        here = [size for name, size in kept.items() if offload.tier_of(name) == tier]
        total = float(np.sum(here, axis=0)[own].max()) if here else 0.0
        tiers[tier] = total + (offload.pinned_bytes if tier == "host" else 0.0)
    used: dict[Tier, float] = {"host": tiers["host"], "cxl": tiers["cxl"], "nvme": tiers["nvme"]}
    room = {tier: capacity_bytes(tier, x.cluster) for tier in used}
    others = {tier: size for tier, size in used.items() if size and tier != "host"}
    return {
        "host_bytes": used["host"],
        "host_capacity_bytes": room["host"],
        "tier_bytes": others,
        "tier_capacity_bytes": {tier: room[tier] for tier in others},
    }


def _warnings(memory: MemoryReport) -> tuple[str, ...]:
    out = []
    for name, size, room in memory.overfull:
        needs, has = size / 2**30, room / 2**30
        out.append(f"does not fit: offloading needs {needs:.0f} GiB of {name} a device, and the node has {has:.0f}")
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


def bound_by(shares: dict[str, float]) -> str:
    """The resource that most of a step's time goes to."""
    groups = {
        "matrix throughput": ("gemm", "recompute"),
        "attention kernels": ("attention",),
        "memory bandwidth": ("memory bound", "scan", "optimizer"),
        "tensor-parallel communication": ("exposed tp",),
        "data-parallel communication": ("exposed dp",),
        "pipeline": ("bubble", "exposed pp"),
        "expert communication": ("exposed ep",),
        "context-parallel communication": ("exposed cp",),
        "host": ("host",),
        "memory outside the device": ("exposed offload",),
        "contention": ("slowed by overlap",),
    }
    return max(groups, key=lambda g: sum(shares.get(name, 0.0) for name in groups[g]))


def _plan_dict(x: PreparedStep) -> dict[str, Any]:
    plan = x.plan
    out: dict[str, Any] = {name: getattr(plan, name) for name in ResolvedPlan.__slots__ if name != "switches"}
    for name, switch in switches_of(CarriedSwitches).items():
        value = getattr(plan.switches, name)
        if value is not None or switch.listed_when_absent:
            out[name] = value
    out["recompute"] = plan.recompute.model_dump(mode="json")
    out["offload"] = plan.offload.model_dump(mode="json")
    out["levels"] = plan.levels and plan.levels.model_dump(mode="json")
    out["compression"] = plan.compression.model_dump(mode="json")
    out["local_steps"] = plan.local_steps and plan.local_steps.model_dump(mode="json")
    out["stage_layers"] = list(plan.stage_layers)
    out["order"] = list(plan.order)
    if x.groups:
        out["group_axis"] = x.group_axis
    if x.groups and x.group_axis == "dp":
        out["batch_shares"] = [g.plan.m for g in x.groups]
    return out


def _stages(x: PreparedStep, memory: MemoryReport, *, grouped: bool) -> tuple[dict[str, Any], ...]:
    stage_of = x.schedule.placement[:, 0]
    out: list[dict[str, Any]] = []
    for s in x.own_stages.tolist():
        mine = np.flatnonzero(stage_of == s)
        out.append(
            ({"group": x.cluster.name} if grouped else {})
            | {
                "stage": s,
                "layers": int(x.stages.layers[mine].sum()),
                "parameters": float((x.stages.dense_params + x.stages.expert_params)[mine].sum()),
                "forward_s": float(x.stages.seconds[0, mine].sum()),
                "backward_s": float(x.stages.seconds[1:, mine].sum()),
                "memory_bytes": memory.per_stage_allocated_bytes[s] if memory.per_stage_allocated_bytes else 0.0,
            }
        )
    return tuple(out)


def _group(x: PreparedStep, memory: MemoryReport, timeline: Timeline) -> dict[str, Any]:
    """One group of unlike devices in a result."""
    return {
        "cluster": x.cluster.name,
        "device": x.cluster.device.id,
        "devices": x.cluster.num_devices,
        "replicas": x.plan.dp,
        "stages": len(x.own_stages),
        "micro_batches": x.plan.m,
        "sequences": x.training.global_batch,
        "busy_s": last_compute_s(x.program, timeline, passes_only=True),
        "peak_memory_reserved_bytes": memory.peak_reserved_bytes,
        "memory_capacity_bytes": memory.capacity_bytes,
        "memory_fits": memory.fits,
    }


def _trace(x: PreparedStep, timeline: Timeline) -> TraceEvents:
    """Stages of the groups follow one another."""
    stage, micro_batch, chunk = (np.full(len(timeline.start_s), value, np.int32) for value in (0, -1, -1))
    first = 0
    for g in (x,) if x.group_axis == "pp" else x.members:
        own, row = g.program.stage >= 0, g.program.row
        has, safe = own & (row >= 0), np.maximum(row, 0)
        stage[own] = g.program.stage[own] + first
        micro_batch[has] = g.schedule.micro_batch[safe[has]]
        chunk[has] = g.schedule.chunk[safe[has]]
        first += g.schedule.p
    stream = (x.program.tasks.stream_idx % len(STREAMS)).astype(np.int32)
    return TraceEvents(
        start_s=timeline.start_s,
        end_s=timeline.end_s,
        stage=stage,
        stream=stream,
        tag=x.program.tasks.tag,
        micro_batch=micro_batch,
        chunk=chunk,
        streams=STREAMS,
        tags=TAGS,
    )


def memory_of(prepared: PreparedStep, timeline: Timeline | None = None) -> MemoryReport:
    """Memory of a step alone, of the fullest group; `timeline` where the step has been run already."""
    found = timeline or run(prepared)
    return max((_memory(g, found) for g in prepared.members), key=lambda r: r.peak_reserved_bytes / r.capacity_bytes)
