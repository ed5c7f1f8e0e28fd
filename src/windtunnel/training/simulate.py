"""One training step: resolve, lower, simulate, account."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel import schedules
from windtunnel.cost.clock import StepWork, at_clock, capped_clock, mean_power_w
from windtunnel.cost.coefficients import Behaviour, Coefficients, behaviour, coefficients
from windtunnel.engine import simulate as run_engine
from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.parallel.precision import MATRIX_FORMAT, check_rate
from windtunnel.parallel.resolve import ResolvedPlan, resolve
from windtunnel.program.tables import Timeline
from windtunnel.schedules.blocks import mean_block
from windtunnel.schedules.table import InstructionTable, ScheduleCosts
from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec, Tier
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques import applied
from windtunnel.techniques.base import Applied, ScheduleCase
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.account import StaticMemory, breakdown, last_compute_s, memory_report, static_memory
from windtunnel.training.assembly import STREAMS, TAGS
from windtunnel.training.batches.variable import Batch, varied
from windtunnel.training.comparable import describe
from windtunnel.training.grades import figure_grades
from windtunnel.training.interval import interval_of
from windtunnel.training.known import Known
from windtunnel.training.memory_interval import with_bands
from windtunnel.training.offload import kept_elsewhere
from windtunnel.training.parts import Parts, build_parts
from windtunnel.training.results import Assumption, MemoryReport, TraceEvents, TrainingResult
from windtunnel.training.step import StepProgram, build_step
from windtunnel.training.tiers import capacity_bytes
from windtunnel.training.zeroth import without_backward


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
    groups: tuple[Prepared, ...] = ()
    """What each group of unlike devices runs, in the one program of all; none where devices are alike."""

    group_axis: str = "dp"
    """The axis that crosses the groups."""

    batch: Batch | None = None
    """The drawn batch that is simulated, where lengths differ."""

    techniques: tuple[Applied, ...] = ()
    """All that act, those that the framework switches on among them."""

    @property
    def own_stages(self) -> npt.NDArray[np.int64]:
        """Stages that run here: all, but for a group of stages."""
        return np.unique(self.program.stage[self.program.stage >= 0]).astype(np.int64)

    @property
    def members(self) -> tuple[Prepared, ...]:
        """The groups, or the step itself where devices are alike."""
        return self.groups or (self,)


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
    for technique in techniques:
        plan = technique.on_decision(plan, model, cluster, training)
    if isinstance(cluster, MixedCluster):
        from windtunnel.specs.batches import refuse_lengths
        from windtunnel.training.mixed import prepare_mixed

        refuse_lengths(training.lengths, "a cluster of unlike groups")
        problems = problems if problems is not None else ProblemList()
        return prepare_mixed(model, cluster, training, plan, techniques, problems, coefficient_overrides, known)
    clock = clock_of(cluster, training, coefficient_overrides)
    return prepare_at(model, cluster, training, plan, techniques, problems, coefficient_overrides, clock, known)


def clock_of(cluster: ClusterSpec, training: TrainingSpec, overrides: dict[str, Any] | None) -> float:
    """Clock that the cluster's power cap allows.

    Raises:
        BadInput: the clock is locked, which only serving reads.
    """
    if cluster.clock_share is not None:
        raise BadInput(Problem("cluster.clock_share", "is read by serving alone; a power cap slows training"))
    chosen = coefficients(training.framework, cluster.device)
    return capped_clock(cluster.device, replace(chosen, **overrides) if overrides else chosen, cluster.power_cap_w)


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
    group: ClusterSpec | None = None,
    spread: bool | None = None,
) -> ResolvedStep:
    """Decide everything that a plan leaves open, and cost its parts.

    `group`: what parts are priced on, where not the whole cluster. `spread`: whether the job spans several scale-up
    domains; absent: whether the cluster does.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    how = behaviour(training.framework).in_precision(training.precision)
    here = group or cluster
    chosen = coefficients(training.framework, here.device)
    if coefficient_overrides:
        chosen = replace(chosen, **coefficient_overrides)
    chosen = at_clock(here.device, chosen, clock)
    if cluster.num_devices > cluster.scale_up_domain if spread is None else spread:
        chosen = chosen.across_nodes()
    for technique in techniques:
        plan = technique.on_plan(plan)
    check_rate(training.precision, here.device, problems)
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
    case = schedule_case(resolved, techniques)
    resolved, table = replace(resolved, schedule=case.id), case.table()
    if plan.gather_per_block and resolved.zero == 3:
        resolved = replace(resolved, gather_block=mean_block(table))
    parts = build_parts(
        model, here, training, resolved, chosen, how, table.placement, techniques,
        split_backward=table.split_backward, known=known,
    )  # fmt: skip
    if training.gradients == "zeroth_order":
        parts = without_backward(parts, training, here, chosen, float(resolved.mbs) * training.seq_len)
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
        prefetch_depth=plan.gathered_layers, reduce_every_micro_batch=every,
        gather_exposed=min(chosen.gather_exposed, 1.0),
    )  # fmt: skip
    for technique in techniques:
        options = technique.on_step(options)
    return options


def table_of(step: ResolvedStep) -> InstructionTable:
    """The schedule of a step; some arrange themselves by what the parts cost.

    Raises:
        ScheduleError: a technique made a table that cannot run.
    """
    rewritten = [t.technique.id for t in step.techniques if t.technique.schedule]
    if not rewritten and not schedules.describe(step.plan.schedule).uses_costs:
        return step.table
    table = schedule_case(step.plan, step.techniques, _costs(step.parts, step.table)).table()
    if rewritten:
        wrong = schedules.validate(table)
        same = table.split_backward == step.table.split_backward
        if not same or not np.array_equal(table.placement, step.table.placement):
            wrong.append("parts sit elsewhere, or backward is split otherwise, than in the table made without costs")
        if wrong:
            raise schedules.ScheduleError([Problem("techniques", rule, ", ".join(rewritten)) for rule in wrong])
    return table


def schedule_case(
    plan: ResolvedPlan, techniques: tuple[Applied, ...], costs: ScheduleCosts | None = None
) -> ScheduleCase:
    """What the pipeline is to run, after the techniques have had their say."""
    case = ScheduleCase(plan.schedule, plan.pp, plan.m, plan.vpp, costs)
    for technique in techniques:
        case = technique.on_schedule(case)
        made = case if case.own is None else case.own
        if (made.p, made.m, made.v) != (plan.pp, plan.m, plan.vpp):
            rule = f"makes a schedule of pp {made.p}, {made.m} micro-batches, vpp {made.v}; sizes are the plan's"
            raise schedules.ScheduleError(Problem("techniques", rule, technique.technique.id))
    return case


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
    batch = None
    if training.lengths is not None:
        step, batch = _with_lengths(model, cluster, training, step, known)
    resolved, parts, table = step.plan, step.parts, table_of(step)
    options = options_of(training, resolved, step.behaviour, step.coefficients, step.techniques)
    program = build_step(parts, table, resolved, cluster, training, step.coefficients, step.behaviour, options)
    return Prepared(
        model, cluster, training, resolved, step.coefficients, step.behaviour, parts, table, program, clock,
        techniques=step.techniques, batch=batch,
    )  # fmt: skip


def _with_lengths(
    model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, step: ResolvedStep, known: Known | None
) -> tuple[ResolvedStep, Batch]:
    """The step with micro-batches of unlike length."""
    found = varied(
        model, cluster, training, step.plan, step.coefficients, step.behaviour, step.table.placement, step.techniques,
        split_backward=step.table.split_backward, known=known or Known(),
    )  # fmt: skip
    table = schedule_case(found.plan, step.techniques).table()
    return replace(step, plan=found.plan, parts=found.parts, table=table), found.batch


def power_of(x: Prepared, step_s: float) -> float:
    """Mean watts of one device."""
    drawn = sum(g.cluster.num_devices * _power_w(g, step_s) for g in x.members)
    return drawn / x.cluster.num_devices


def _power_w(x: Prepared, step_s: float) -> float:
    """Mean watts of one device of one group."""
    device = x.cluster.device
    if not device.tdp_w:
        return 0.0
    per_device = x.plan.m / x.plan.copies / len(x.own_stages)
    work = StepWork(
        _hardware_flop(x) / x.cluster.num_devices,
        float(x.parts.hbm_bytes.sum()) * per_device, float((x.parts.up_bytes + x.parts.out_bytes).sum()) * per_device,
        MATRIX_FORMAT[x.training.precision],
    )  # fmt: skip
    return mean_power_w(device, x.coefficients, work, step_s)


def _hardware_flop(x: Prepared) -> float:
    """FLOPs that run in a step, of all devices."""
    if x.batch:
        return x.batch.hardware_flop
    return x.parts.hardware_flop * x.plan.m * x.plan.dp * _share_run(x.parts, x.table)


def _share_run(parts: Parts, table: InstructionTable) -> float:
    """Share of a model's FLOPs that micro-batches run which skip parts of it."""
    if table.runs is None:
        return 1.0
    flop = np.array(
        [sum(n * sum(parts.segment_times[s].flop for s in set(own)) for own, n in use) for use in parts.uses]
    )
    return float((flop * table.runs.mean(axis=0)).sum() / flop.sum())


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
    tokens = x.batch.tokens if x.batch else float(x.training.global_batch) * x.training.seq_len
    model_flop = (x.batch.model_flop_per_token if x.batch else x.parts.graph.model_flop_per_token) * tokens
    if x.training.phase == "lora":  # no weight gradients for frozen matrices
        model_flop *= 2.0 / 3.0
    if x.training.gradients == "zeroth_order":  # two forward passes
        model_flop *= 2.0 / 3.0
    hardware_flop = sum(_hardware_flop(g) for g in x.members)
    number = MATRIX_FORMAT[x.training.precision]
    peak = sum(g.cluster.num_devices * g.cluster.device.peak(number) for g in x.members) / devices
    last = max(x.members, key=lambda g: last_compute_s(g.program, timeline))
    shares = breakdown(last.program, timeline, last.parts)
    reports = [_memory(g, timeline) if memory else _no_memory(g) for g in x.members]
    report = max(reports, key=lambda r: r.peak_reserved_bytes / r.capacity_bytes)
    bands = [interval_of(describe(g.training, g.cluster, g.model, g.plan), step) for g in x.members]
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
        bound_by=_bound_by(shares),
        plan=_plan_dict(x),
        num_devices=devices,
        num_micro_batches=x.plan.m,
        assumed=assumed,
        warnings=warnings,
        trace=_trace(x, timeline) if trace else None,
        stages=sum((_stages(g, own, grouped=bool(x.groups)) for g, own in zip(x.members, reports, strict=True)), ()),
        groups=tuple(_group(g, own, timeline) for g, own in zip(x.groups, reports, strict=False)),
        lengths=x.batch.summary if x.batch else {},
        model_flop_per_token=x.parts.graph.model_flop_per_token,
        attention_flop_per_token=x.parts.graph.attention_flop_per_token,
        mean_power_w=watts,
        clock=min(g.clock for g in x.members),
        energy_per_token_j=watts * devices * step / tokens,
        grades=figure_grades(band, report, x.cluster),
        cost_per_million_tokens=None if price is None else price * devices * step / 3600.0 / tokens * 1e6,
        simulated_in_s=time.perf_counter() - begun,
    )


def _mean_price(x: Prepared) -> float | None:
    """Of a device-hour; None where one of the groups has no price."""
    prices = [g.cluster.price_per_device_hour or g.cluster.device.price_per_hour for g in x.members]
    if any(price is None for price in prices):
        return None
    costs = [g.cluster.num_devices * (price or 0.0) for g, price in zip(x.members, prices, strict=True)]
    return sum(costs) / sum(g.cluster.num_devices for g in x.members)


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
    if x.plan.offload.any:
        report = replace(report, **_elsewhere(x, static))
    return with_bands(report, x.training.framework, x.cluster, x.model)


def _elsewhere(x: Prepared, static: StaticMemory) -> dict[str, Any]:
    """What one device keeps in each memory of its node, and its share of them: fields of the report."""
    offload, own = x.plan.offload, x.own_stages
    kept = {"activations": kept_elsewhere(x.parts, x.plan, x.table)} | static.elsewhere
    tiers: dict[str, float] = {}
    for tier in ("host", "cxl", "nvme"):
        here = [size for name, size in kept.items() if offload.tier_of(name) == tier]
        total = float(np.sum(here, axis=0)[own].max()) if here else 0.0
        tiers[tier] = total + (offload.pinned_bytes if tier == "host" else 0.0)
    used: dict[Tier, float] = {"host": tiers["host"], "cxl": tiers["cxl"], "nvme": tiers["nvme"]}
    room = {tier: capacity_bytes(tier, x.cluster) for tier in used}
    others = {tier: size for tier, size in used.items() if size and tier != "host"}
    return {
        "host_bytes": used["host"], "host_capacity_bytes": room["host"], "tier_bytes": others,
        "tier_capacity_bytes": {tier: room[tier] for tier in others},
    }  # fmt: skip


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


def _bound_by(shares: dict[str, float]) -> str:
    groups = {
        "matrix throughput": ("gemm", "recompute"), "attention kernels": ("attention",),
        "memory bandwidth": ("memory bound", "scan", "optimizer"), "tensor-parallel communication": ("exposed tp",),
        "data-parallel communication": ("exposed dp",), "pipeline": ("bubble", "exposed pp"),
        "expert communication": ("exposed ep",), "context-parallel communication": ("exposed cp",),
        "host": ("host",), "memory outside the device": ("exposed offload",), "contention": ("slowed by overlap",),
    }  # fmt: skip
    return max(groups, key=lambda g: sum(shares.get(name, 0.0) for name in groups[g]))


def _plan_dict(x: Prepared) -> dict[str, Any]:
    plan = x.plan
    out: dict[str, Any] = {name: getattr(plan, name) for name in ResolvedPlan.__slots__}
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


def _stages(x: Prepared, memory: MemoryReport, *, grouped: bool) -> tuple[dict[str, Any], ...]:
    stage_of = x.table.placement[:, 0]
    out: list[dict[str, Any]] = []
    for s in x.own_stages.tolist():
        mine = np.flatnonzero(stage_of == s)
        out.append(
            ({"group": x.cluster.name} if grouped else {})
            | {
                "stage": s,
                "layers": int(x.parts.layers[mine].sum()),
                "parameters": float((x.parts.dense_params + x.parts.expert_params)[mine].sum()),
                "forward_s": float(x.parts.seconds[0, mine].sum()),
                "backward_s": float(x.parts.seconds[1:, mine].sum()),
                "memory_bytes": memory.per_stage_allocated_bytes[s] if memory.per_stage_allocated_bytes else 0.0,
            }
        )
    return tuple(out)


def _group(x: Prepared, memory: MemoryReport, timeline: Timeline) -> dict[str, Any]:
    """One group of unlike devices in a result."""
    return {
        "cluster": x.cluster.name, "device": x.cluster.device.id, "devices": x.cluster.num_devices,
        "replicas": x.plan.dp, "stages": len(x.own_stages), "micro_batches": x.plan.m,
        "sequences": x.training.global_batch,
        "busy_s": last_compute_s(x.program, timeline, passes_only=True),
        "peak_memory_reserved_bytes": memory.peak_reserved_bytes, "memory_capacity_bytes": memory.capacity_bytes,
        "memory_fits": memory.fits,
    }  # fmt: skip


def _trace(x: Prepared, timeline: Timeline) -> TraceEvents:
    """Stages of the groups follow one another."""
    stage, micro_batch, chunk = (np.full(len(timeline.start_s), value, np.int32) for value in (0, -1, -1))
    first = 0
    for g in (x,) if x.group_axis == "pp" else x.members:
        own, row = g.program.stage >= 0, g.program.row
        has, safe = own & (row >= 0), np.maximum(row, 0)
        stage[own] = g.program.stage[own] + first
        micro_batch[has] = g.table.micro_batch[safe[has]]
        chunk[has] = g.table.chunk[safe[has]]
        first += g.table.p
    stream = (x.program.tasks.stream_idx % len(STREAMS)).astype(np.int32)
    return TraceEvents(
        timeline.start_s, timeline.end_s, stage, stream, x.program.tasks.tag, micro_batch, chunk, STREAMS, TAGS
    )


def memory_of(prepared: Prepared, timeline: Timeline | None = None) -> MemoryReport:
    """Memory of a step alone, of the fullest group; `timeline` where the step has been run already."""
    found = timeline or run(prepared)
    return max((_memory(g, found) for g in prepared.members), key=lambda r: r.peak_reserved_bytes / r.capacity_bytes)
