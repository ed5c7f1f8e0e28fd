"""One training step: run the engine on its program, account for time and memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.engine import simulate as run_engine
from windtunnel.program.tables import Timeline
from windtunnel.specs.plan import Tier
from windtunnel.training.accounting.breakdown import breakdown, last_compute_s
from windtunnel.training.memory.memory_inputs import MemoryInputs
from windtunnel.training.memory.memory_report import memory_report
from windtunnel.training.memory.static_memory import StaticMemory, static_memory
from windtunnel.training.offload.memory_tiers import capacity_bytes
from windtunnel.training.results.grades import figure_grades
from windtunnel.training.results.records import Assumption, Interval, MemoryReport, TraceEvents
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.step.offload_tasks import kept_elsewhere
from windtunnel.training.step_figures.flop_rates import flop_rates
from windtunnel.training.step_figures.power import power_of, price_per_device_hour
from windtunnel.training.step_figures.stage_table import group_row, plan_fields, stage_rows
from windtunnel.training.step_figures.warnings import step_warnings
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.task_builder import STREAMS, TAGS
from windtunnel.training.uncertainty.comparable_runs import describe
from windtunnel.training.uncertainty.memory_interval import with_bands
from windtunnel.training.uncertainty.profile_coverage import coverage_of
from windtunnel.training.uncertainty.step_time_interval import interval_of


def interval_of_step(
    prepared: PreparedStep, step_time_s: float, shares: Mapping[str, float], *, site_known: bool = False
) -> Interval:
    """80 % interval of a step time: the widest of its groups of unlike devices.

    Args:
        prepared: The resolved step.
        step_time_s: Its predicted step time.
        shares: Class of time → seconds of the step.
        site_known: Whether the run's site is one of the record's (see `uncertainty.step_time_interval`).
    """
    bands = [
        interval_of(
            describe(g.training, g.cluster, g.model, g.plan),
            step_time_s,
            coverage_of(g.cluster.device.profile, shares),
            site_known=site_known,
        )
        for g in prepared.members
    ]
    return max(bands, key=lambda b: b.high / b.low)


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
    """Run the engine and account for time and memory.

    Args:
        prepared: The resolved step.
        name: Name of the scenario.
        assumed: What was assumed where the scenario says nothing.
        trace: Whether to keep the simulated step for Perfetto and the report.
        memory: Whether to account for memory; else its figures are zero.
        sensitivities: Relative change of the step by resource, where it was asked for.
        started: Seconds of `time.perf_counter` when the prediction began; absent: now.
    """
    begun = time.perf_counter() if started is None else started
    timeline = run(prepared)
    step_s, devices = timeline.makespan_s, prepared.cluster.num_devices
    last = max(prepared.members, key=lambda g: last_compute_s(g.program, timeline))
    shares = breakdown(last.program, timeline, last.stages)
    reports = [
        _memory(g, timeline) if memory else MemoryReport.empty(g.cluster.device.memory_bytes) for g in prepared.members
    ]
    fullest = max(reports, key=lambda r: r.peak_reserved_bytes / r.capacity_bytes)
    band = interval_of_step(prepared, step_s, shares)
    tokens, watts, price = _tokens(prepared), power_of(prepared, step_s), price_per_device_hour(prepared)
    return TrainingResult(
        scenario_name=name,
        step_time_s=step_s,
        tokens_per_s=tokens / step_s,
        tokens_per_s_per_device=tokens / step_s / devices,
        **flop_rates(prepared, tokens, step_s),
        peak_memory_allocated_bytes=fullest.peak_allocated_bytes,
        peak_memory_reserved_bytes=fullest.peak_reserved_bytes,
        memory_fits=all(own.fits for own in reports),
        breakdown=shares,
        interval=band,
        memory=fullest,
        sensitivities=sensitivities or {},
        bound_by=bound_by(shares),
        plan=plan_fields(prepared),
        num_devices=devices,
        num_micro_batches=prepared.plan.m,
        assumed=assumed,
        warnings=step_warnings(prepared, reports, step_s),
        trace=_trace(prepared, timeline) if trace else None,
        stages=sum(
            (
                stage_rows(g, own, grouped=bool(prepared.groups))
                for g, own in zip(prepared.members, reports, strict=True)
            ),
            (),
        ),
        groups=tuple(group_row(g, own, timeline) for g, own in zip(prepared.groups, reports, strict=False)),
        lengths=prepared.batch.summary if prepared.batch else {},
        model_flop_per_token=prepared.stages.graph.model_flop_per_token,
        attention_flop_per_token=prepared.stages.graph.attention_flop_per_token,
        mean_power_w=watts,
        clock=min(g.clock for g in prepared.members),
        energy_per_token_j=watts * devices * step_s / tokens,
        grades=figure_grades(band, fullest, prepared.cluster),
        cost_per_million_tokens=None if price is None else price * devices * step_s / 3600.0 / tokens * 1e6,
        simulated_in_s=time.perf_counter() - begun,
    )


def _tokens(x: PreparedStep) -> float:
    """Tokens of a step, padding left out."""
    return x.batch.tokens if x.batch else float(x.training.global_batch) * x.training.seq_len


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
