"""From a plan to the program of one training step: resolve, cost the parts, lower."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Ints
from windtunnel.cost.clock import at_clock, capped_clock
from windtunnel.cost.coefficients import Coefficients, coefficients
from windtunnel.cost.framework_defaults import Behaviour, behaviour
from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.parallel.precision import check_rate
from windtunnel.parallel.resolve import ResolvedPlan, resolve
from windtunnel.schedules.blocks import mean_block
from windtunnel.schedules.table import InstructionTable, ScheduleCosts
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques import applied
from windtunnel.techniques.base import Applied, ScheduleCase
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.data_parallel.comm_costs import GroupComm
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.stage_costs.stage_costs import StageCosts, build_stage_costs
from windtunnel.training.stage_costs.step_inputs import StepInputs
from windtunnel.training.stage_costs.zeroth_order import without_backward
from windtunnel.training.step.build_step import StepProgram, build_step
from windtunnel.training.step.replica_group import UniformReplicas
from windtunnel.training.variable_length.price_batch import Batch, price_drawn_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStep:
    """A resolved step, before the engine runs it."""

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
    groups: tuple[PreparedStep, ...] = ()
    """What each group of unlike devices runs, in the one program of all; none where devices are alike."""

    group_axis: str = "dp"
    """The axis that crosses the groups."""

    batch: Batch | None = None
    """The drawn batch that is simulated, where lengths differ."""

    techniques: tuple[Applied, ...] = ()
    """All that act, those that the framework switches on among them."""

    @property
    def own_stages(self) -> Ints:
        """Stages that run here: all, but for a group of stages."""
        return np.unique(self.program.stage[self.program.stage >= 0]).astype(np.int64)

    @property
    def members(self) -> tuple[PreparedStep, ...]:
        """The groups, or the step itself where devices are alike."""
        return self.groups or (self,)


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
    schedule: InstructionTable
    stages: StageCosts


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
    cache: PricingCache | None = None,
    group: ClusterSpec | None = None,
    spread: bool | None = None,
) -> ResolvedStep:
    """Decide everything that a plan leaves open, and cost its parts.

    `group`: what parts are priced on, where not the whole cluster. `spread`: whether the job spans several scale-up
    domains; absent: whether the cluster does.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    how = behaviour(training.framework).in_precision(training.precision, training.autocast)
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
    inputs = StepInputs(
        model=model,
        cluster=here,
        training=training,
        coefficients=chosen,
        behaviour=how,
        techniques=techniques,
        cache=cache if cache is not None else PricingCache(),
    )
    parts = build_stage_costs(inputs, resolved, table)
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
        gather_exposed=min(chosen.gather_exposed, 1.0),
    )
    for technique in techniques:
        options = technique.on_step(options)
    return options


def uniform_replicas(
    step: ResolvedStep, cluster: ClusterSpec, training: TrainingSpec, schedule: InstructionTable
) -> UniformReplicas:
    """The replicas of a step on one kind of devices, under the schedule that they run."""
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
    """The schedule of a step; some arrange themselves by what the parts cost.

    Raises:
        ScheduleError: a technique made a table that cannot run.
    """
    rewritten = [t.technique.id for t in step.techniques if t.technique.schedule]
    if not rewritten and not schedules.describe(step.plan.schedule).uses_costs:
        return step.schedule
    table = schedule_case(step.plan, step.techniques, _costs(step.stages, step.schedule)).table()
    if rewritten:
        wrong = schedules.validate(table)
        same = table.split_backward == step.schedule.split_backward
        same &= (table.runs is None) == (step.schedule.runs is None)
        if not same or not np.array_equal(table.placement, step.schedule.placement):
            wrong.append("parts sit elsewhere, backward is split or parts are skipped otherwise, than without costs")
        if wrong:
            raise schedules.ScheduleError([Problem("techniques", rule, ", ".join(rewritten)) for rule in wrong])
    return table


def schedule_case(
    plan: ResolvedPlan, techniques: tuple[Applied, ...], costs: ScheduleCosts | None = None
) -> ScheduleCase:
    """What the pipeline is to run, after the techniques have had their say."""
    case = ScheduleCase(id=plan.schedule, p=plan.pp, m=plan.m, v=plan.vpp, costs=costs)
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
    cache: PricingCache | None = None,
) -> PreparedStep:
    """One step program at one clock.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    problems = problems if problems is not None else ProblemList()
    step = resolve_step(
        model,
        cluster,
        training,
        plan,
        techniques,
        problems,
        coefficient_overrides=coefficient_overrides,
        clock=clock,
        cache=cache,
    )
    batch = None
    if training.lengths is not None:
        step, batch = _with_lengths(model, cluster, training, step, cache)
    resolved, parts, table = step.plan, step.stages, table_of(step)
    program = build_step(uniform_replicas(step, cluster, training, table))
    return PreparedStep(
        model=model,
        cluster=cluster,
        training=training,
        plan=resolved,
        coefficients=step.coefficients,
        behaviour=step.behaviour,
        stages=parts,
        schedule=table,
        program=program,
        clock=clock,
        techniques=step.techniques,
        batch=batch,
    )


def _with_lengths(
    model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec, step: ResolvedStep, cache: PricingCache | None
) -> tuple[ResolvedStep, Batch]:
    """The step with micro-batches of unlike length."""
    inputs = StepInputs(
        model=model,
        cluster=cluster,
        training=training,
        coefficients=step.coefficients,
        behaviour=step.behaviour,
        techniques=step.techniques,
        cache=cache or PricingCache(),
    )
    found = price_drawn_batch(inputs, step.plan, step.schedule)
    table = schedule_case(found.plan, step.techniques).table()
    return replace(step, plan=found.plan, stages=found.stages, schedule=table), found.batch


def _costs(parts: StageCosts, table: InstructionTable) -> ScheduleCosts:
    """Seconds per (stage, chunk) for schedules that arrange themselves by time."""
    out = np.zeros((3, table.p, table.v))
    out[:, table.placement[:, 0], table.placement[:, 1]] = parts.seconds
    return ScheduleCosts(out[0], out[1], out[2])
