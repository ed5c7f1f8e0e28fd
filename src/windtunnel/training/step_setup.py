"""From a plan to the program of one training step: the plan is resolved, its stages are priced, its tasks built."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Ints
from windtunnel.cost.clock import at_clock, capped_clock
from windtunnel.cost.coefficients import Coefficients, coefficients
from windtunnel.cost.framework_defaults import Behaviour, behaviour_of
from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.parallel.precision import check_precision
from windtunnel.parallel.resolve import ResolvedPlan, resolve
from windtunnel.schedules.blocks import mean_block
from windtunnel.schedules.table import InstructionTable, ScheduleCosts
from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques import applied
from windtunnel.techniques.base import Applied, ScheduleCase
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.data_parallel.comm_costs import GroupComm
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.stage_costs.reference_pass import with_reference
from windtunnel.training.stage_costs.stage_costs import StageCosts, build_stage_costs
from windtunnel.training.stage_costs.step_inputs import StepInputs
from windtunnel.training.stage_costs.zeroth_order import without_backward
from windtunnel.training.step.build_step import StepProgram, build_step
from windtunnel.training.step.replica_group import UniformReplicas
from windtunnel.training.variable_length.price_batch import Batch, price_drawn_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStep:
    """A resolved training step with its program, before the engine runs it."""

    model: ModelSpec
    cluster: ClusterSpec
    training: TrainingSpec
    plan: ResolvedPlan
    coefficients: Coefficients
    behaviour: Behaviour
    stages: StageCosts
    schedule: InstructionTable
    program: StepProgram
    clock: float = 1.0
    """Share of its highest clock that the device runs at, 0 to 1."""
    groups: tuple[PreparedStep, ...] = ()
    """The step as each group of unlike devices runs it; empty where devices are alike."""
    group_axis: str = "dp"
    """The axis that crosses the groups: dp or pp."""
    batch: Batch | None = None
    """The batch that was drawn, where sequence lengths differ."""
    techniques: tuple[Applied, ...] = ()
    """All techniques that act, with those that the framework switches on."""

    @property
    def own_stages(self) -> Ints:
        """Pipeline stages with tasks in this step: all of them, or those of one group where groups lie along pp."""
        return np.unique(self.program.stage[self.program.stage >= 0]).astype(np.int64)

    @property
    def members(self) -> tuple[PreparedStep, ...]:
        """The groups, or the step itself where devices are alike."""
        return self.groups or (self,)


def clock_of(cluster: ClusterSpec, training: TrainingSpec, overrides: dict[str, Any] | None) -> float:
    """Share of its highest clock that the cluster's power cap allows a device, 0 to 1.

    Raises:
        BadInput: the clock is locked, which only serving reads.
    """
    if cluster.clock_share is not None:
        raise BadInput(Problem("cluster.clock_share", "is read by serving alone; a power cap slows training"))
    chosen = coefficients(training.framework, cluster.device, cluster)
    return capped_clock(cluster.device, replace(chosen, **overrides) if overrides else chosen, cluster.power_cap_w)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """A training step to prepare: what is trained, where and how, and what its prices share with other steps."""

    model: ModelSpec
    cluster: ClusterSpec
    training: TrainingSpec
    plan: PlanSpec
    techniques: tuple[Applied, ...] = ()
    problems: ProblemList = field(default_factory=ProblemList)
    """Problems that were found so far; a request collects all of them before one error names them."""
    coefficient_overrides: dict[str, Any] | None = None
    """Coefficients that replace those of the catalogue, by name."""
    cache: PricingCache = field(default_factory=PricingCache)
    """Prices that steps share; a step is the same with a cache of its own."""

    @property
    def groups(self) -> tuple[ClusterSpec, ...]:
        """The cluster's groups of unlike devices.

        Raises:
            TypeError: the devices of the cluster are alike.
        """
        return self.mixed_cluster.groups

    @property
    def mixed_cluster(self) -> MixedCluster:
        """The cluster, where it is made of groups of unlike devices.

        Raises:
            TypeError: its devices are alike.
        """
        if not isinstance(self.cluster, MixedCluster):
            raise TypeError(f"{self.cluster.device.id}: the devices of this cluster are alike")
        return self.cluster


@dataclass(frozen=True, slots=True)
class ResolvedStep:
    """A resolved plan with the cost of its stages, before there is a step program."""

    plan: ResolvedPlan
    coefficients: Coefficients
    behaviour: Behaviour
    techniques: tuple[Applied, ...]
    schedule: InstructionTable
    stages: StageCosts


def resolve_step(
    request: StepRequest, *, clock: float = 1.0, group: ClusterSpec | None = None, spread: bool | None = None
) -> ResolvedStep:
    """Decide everything that a plan leaves open, and price its stages.

    Args:
        request: The step.
        clock: Share of its highest clock that the device runs at, 0 to 1.
        group: Devices that stages are priced on; absent: those of the whole cluster.
        spread: Whether the job spans several scale-up domains; absent: whether the cluster does.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    training, plan, problems = request.training, request.plan, request.problems
    devices = group or request.cluster
    defaults = behaviour_of(training, devices.device, request.model)
    device_coefficients = _coefficients_of(request, devices, clock, spread)
    for technique in request.techniques:
        plan = technique.on_plan(plan)
    check_precision(training, devices.device, problems)
    resolved = resolve(request.model, request.cluster, training, plan, defaults, problems)
    problems.raise_if_any()
    if resolved is None:
        raise AssertionError("resolve returned nothing without a problem")
    techniques = (*request.techniques, *_framework_tp_overlap(resolved, defaults, request.techniques))
    case = schedule_case(resolved, techniques)
    resolved, table = replace(resolved, schedule=case.id), case.table()
    if plan.gather_per_block and resolved.zero == 3:
        resolved = replace(resolved, gather_block=mean_block(table))
    inputs = StepInputs(
        model=request.model,
        cluster=devices,
        training=training,
        coefficients=device_coefficients,
        behaviour=defaults,
        techniques=techniques,
        cache=request.cache,
    )
    stages = build_stage_costs(inputs, resolved, table)
    if training.gradients == "zeroth_order":
        tokens = float(resolved.mbs) * training.seq_len
        stages = without_backward(stages, training, devices, device_coefficients, tokens)
    if training.reference_passes:
        stages = with_reference(stages, float(resolved.mbs) * training.seq_len, training.reference_passes)
    return ResolvedStep(resolved, device_coefficients, defaults, techniques, table, stages)


def _coefficients_of(request: StepRequest, devices: ClusterSpec, clock: float, spread: bool | None) -> Coefficients:
    """Coefficients of one kind of devices at a clock, with the request's overrides."""
    cluster, device = request.cluster, devices.device
    found = coefficients(request.training.framework, device, devices)
    if request.coefficient_overrides:
        found = replace(found, **request.coefficient_overrides)
    found = at_clock(device, found, clock)
    crosses_nodes = cluster.num_devices > cluster.scale_up_domain if spread is None else spread
    return found.across_nodes() if crosses_nodes else found


def _framework_tp_overlap(
    plan: ResolvedPlan, defaults: Behaviour, techniques: tuple[Applied, ...]
) -> tuple[Applied, ...]:
    """The overlap of tensor-parallel collectives that the framework switches on; none where a technique decides it."""
    if plan.tp == 1 or any(t.technique.id == "tp-overlap" for t in techniques):
        return ()
    if plan.overlap_tp:
        knobs: dict[str, Any] = {"method": defaults.tp_overlap_method}
        if defaults.async_tp:
            knobs |= {"bulk": False, "late_sum": True, "comm_sms": 0}
        return applied(({"tp-overlap": knobs},))
    if plan.tp_bulk_overlap:
        return applied(({"tp-overlap": {"pipeline": False}},))
    return ()


def options_of(
    training: TrainingSpec,
    plan: ResolvedPlan,
    defaults: Behaviour,
    device_coefficients: Coefficients,
    techniques: tuple[Applied, ...],
) -> StepOptions:
    """How data-parallel traffic runs: as plan and framework say, then as the techniques change it."""
    grad_bytes = defaults.wire_bytes(training.precision, training.grad_reduce_precision)
    # FSDP under a pipeline reduces once, after the last micro-batch
    every = plan.zero == 2 and plan.pp == 1 and plan.m > 1 and training.gradient_accumulation_sync
    bucket = plan.switches.ddp_bucket_size
    options = StepOptions(
        overlap_grad_reduce=plan.overlap_grad_reduce,
        overlap_param_gather=plan.overlap_param_gather,
        overlap_p2p=plan.overlap_p2p,
        fsdp_prefetch=plan.fsdp_prefetch,
        grad_bytes=grad_bytes,
        sync_every_micro_batch=training.gradient_accumulation_sync,
        prefetch_depth=plan.gathered_layers,
        bucket_bytes=None if bucket is None else bucket * grad_bytes,
        reduce_every_micro_batch=every,
        gather_exposed=min(device_coefficients.gather_exposed, 1.0),
    )
    for technique in techniques:
        options = technique.on_step(options)
    return options


def uniform_replicas(
    step: ResolvedStep, cluster: ClusterSpec, training: TrainingSpec, schedule: InstructionTable
) -> UniformReplicas:
    """The data-parallel replicas of a step on devices that are alike, under the schedule that they run."""
    options = options_of(training, step.plan, step.behaviour, step.coefficients, step.techniques)
    return UniformReplicas(
        stages=step.stages,
        schedule=schedule,
        plan=step.plan,
        cluster=cluster,
        coefficients=step.coefficients,
        comm=GroupComm(step.stages, step.plan, cluster, training, step.behaviour, options),
    )


def table_of(step: ResolvedStep) -> InstructionTable:
    """The schedule of a step; some schedules order their instructions by the seconds of the stages.

    Raises:
        ScheduleError: a technique made a table that cannot run.
    """
    rewritten = [t.technique.id for t in step.techniques if t.technique.schedule]
    if not rewritten and not schedules.describe(step.plan.schedule).uses_costs:
        return step.schedule
    table = schedule_case(step.plan, step.techniques, _costs(step.stages, step.schedule)).table()
    if rewritten:
        wrong = schedules.validate(table)
        alike = table.split_backward == step.schedule.split_backward
        alike &= (table.runs is None) == (step.schedule.runs is None)
        if not alike or not np.array_equal(table.placement, step.schedule.placement):
            wrong.append("parts sit elsewhere, backward is split or parts are skipped otherwise, than without costs")
        if wrong:
            raise schedules.ScheduleError([Problem("techniques", rule, ", ".join(rewritten)) for rule in wrong])
    return table


def schedule_case(
    plan: ResolvedPlan, techniques: tuple[Applied, ...], costs: ScheduleCosts | None = None
) -> ScheduleCase:
    """The schedule that the pipeline runs, after techniques have changed it.

    Raises:
        ScheduleError: a technique changed the sizes of the pipeline.
    """
    case = ScheduleCase(id=plan.schedule, p=plan.pp, m=plan.m, v=plan.vpp, costs=costs)
    for technique in techniques:
        case = technique.on_schedule(case)
        made = case if case.own is None else case.own
        if (made.p, made.m, made.v) != (plan.pp, plan.m, plan.vpp):
            rule = f"makes a schedule of pp {made.p}, {made.m} micro-batches, vpp {made.v}; sizes are the plan's"
            raise schedules.ScheduleError(Problem("techniques", rule, technique.technique.id))
    return case


def prepare_at(request: StepRequest, clock: float) -> PreparedStep:
    """Build the step program at one clock.

    Args:
        request: The step, on devices that are alike.
        clock: Share of its highest clock that the device runs at, 0 to 1.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    step = resolve_step(request, clock=clock)
    batch = None
    if request.training.lengths is not None:
        step, batch = _with_lengths(request, step)
    table = table_of(step)
    return PreparedStep(
        model=request.model,
        cluster=request.cluster,
        training=request.training,
        plan=step.plan,
        coefficients=step.coefficients,
        behaviour=step.behaviour,
        stages=step.stages,
        schedule=table,
        program=build_step(uniform_replicas(step, request.cluster, request.training, table)),
        clock=clock,
        techniques=step.techniques,
        batch=batch,
    )


def _with_lengths(request: StepRequest, step: ResolvedStep) -> tuple[ResolvedStep, Batch]:
    """The step with micro-batches of unequal length, and the batch that was drawn for it."""
    inputs = StepInputs(
        model=request.model,
        cluster=request.cluster,
        training=request.training,
        coefficients=step.coefficients,
        behaviour=step.behaviour,
        techniques=step.techniques,
        cache=request.cache,
    )
    found = price_drawn_batch(inputs, step.plan, step.schedule)
    table = schedule_case(found.plan, step.techniques).table()
    return replace(step, plan=found.plan, stages=found.stages, schedule=table), found.batch


def _costs(stages: StageCosts, table: InstructionTable) -> ScheduleCosts:
    """Seconds of F, B and W by (stage, chunk), for schedules that order their instructions by time."""
    out = np.zeros((3, table.p, table.v))
    out[:, table.placement[:, 0], table.placement[:, 1]] = stages.seconds
    return ScheduleCosts(out[0], out[1], out[2])
