"""Steps on groups of unlike devices: each group's part is resolved and priced on its own devices and network."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from windtunnel import schedules
from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.specs.cluster import ClusterSpec, MixedCluster, outward
from windtunnel.specs.compression import Compression
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.step.build_step import StepProgram, build_joint
from windtunnel.training.step.cross_group_reduction import CrossGroupNetwork
from windtunnel.training.step.cross_group_stages import (
    CrossGroupComm,
    CrossGroupPipeline,
    StagePlacement,
    joined_stage_costs,
    stage_costs_of_group,
)
from windtunnel.training.step.replica_group import ReplicaGroup
from windtunnel.training.step_setup import (
    PreparedStep,
    ResolvedStep,
    StepRequest,
    clock_of,
    resolve_step,
    table_of,
    uniform_replicas,
)


def prepare_heterogeneous(request: StepRequest) -> PreparedStep:
    """The joint step of all groups.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    plan, problems = request.plan, request.problems
    schedule = plan.schedule or ""
    if schedule in schedules.list_ids() and schedules.describe(schedule).copies > 1:
        problems.add("plan.schedule", schedule, "holds two copies of the model, which needs devices that are alike")
        problems.raise_if_any()
    if plan.group_axis == "pp":
        return _groups_along_pp(request)
    if plan.batch_shares == "balanced":
        from windtunnel.training.heterogeneous.batch_shares import with_balanced_shares

        request = replace(request, plan=with_balanced_shares(request))
    return _groups_along_dp(request)


def shares_of(
    cluster: MixedCluster, training: TrainingSpec, plan: PlanSpec, problems: ProblemList
) -> list[tuple[int, int]] | None:
    """(replicas, micro-batches per replica) of each group; None, with problems, where the plan does not divide."""
    inner = plan.tp * plan.pp * plan.cp
    replicas = []
    for i, group in enumerate(cluster.groups):
        if group.num_devices % inner:
            problems.add(
                f"cluster.groups.{i}",
                f"{group.num_devices} devices",
                f"must hold whole replicas: a multiple of tp · pp · cp = {inner}",
            )
        replicas.append(group.num_devices // inner)
    total = sum(replicas)
    if plan.dp not in ("auto", total):
        problems.add("plan.dp", plan.dp, f"must be auto or {total}, the replicas of all groups")
    if plan.zero == 3 and min(replicas) < 2:
        problems.add("plan.zero", 3, "shards inside each group, so that each needs two replicas or more")
    if plan.shard_group is not None:
        problems.add("plan.shard_group", plan.shard_group, "must be absent: each group shards over all its replicas")
    _refuse_sent(plan, problems)
    batch, mbs = training.global_batch, plan.mbs
    given = None if plan.batch_shares == "balanced" else plan.batch_shares
    if given is None:
        if total and batch % (mbs * total):
            problems.add(
                "training.global_batch",
                batch,
                f"must be divisible by mbs · dp = {mbs} · {total}, or plan.batch_shares must share it out",
            )
        shares = [max(batch // max(mbs * total, 1), 1)] * len(replicas)
    elif len(given) != len(replicas):
        rule = f"must have one entry for each of the {len(replicas)} groups: micro-batches per replica"
        problems.add("plan.batch_shares", list(given), rule)
        return None
    else:
        shares = list(given)
        sequences = mbs * sum(r * m for r, m in zip(replicas, shares, strict=True))
        if sequences != batch and not len(problems):
            each = " + ".join(f"{r} · {m}" for r, m in zip(replicas, shares, strict=True))
            rule = f"make mbs · (replicas · micro-batches) = {mbs} · ({each}) = {sequences} of the {batch} sequences"
            problems.add("plan.batch_shares", shares, rule)
    return None if len(problems) else list(zip(replicas, shares, strict=True))


def _refuse_sent(plan: PlanSpec, problems: ProblemList) -> None:
    """Refuse what changes the gradients that replicas exchange in every step: groups exchange them whole."""
    given = {
        "levels": plan.levels is not None,
        "compression": plan.compression != Compression(),
        "local_steps": plan.local_steps is not None,
    }
    for name in (name for name, there in given.items() if there):
        problems.add(f"plan.{name}", "given", "must be absent on groups of unlike devices")


@dataclass(frozen=True, slots=True)
class GroupStep:
    """The step of one group of devices, before there is a step program."""

    group: ClusterSpec
    training: TrainingSpec
    """The workload with the group's share of the global batch."""
    step: ResolvedStep
    replicas: ReplicaGroup
    clock: float

    def prepared(self, model: ModelSpec, program: StepProgram) -> PreparedStep:
        """The group's step with the program of all groups."""
        x, r = self.step, self.replicas
        return PreparedStep(
            model=model,
            cluster=self.group,
            training=self.training,
            plan=x.plan,
            coefficients=x.coefficients,
            behaviour=x.behaviour,
            stages=r.stages,
            schedule=r.schedule,
            program=program,
            clock=self.clock,
            techniques=x.techniques,
        )


def replica_classes(request: StepRequest) -> tuple[list[GroupStep], CrossGroupNetwork]:
    """The steps of groups along dp, and the network between them.

    Each group trains on its share of the batch alone, up to the reduction of gradients between groups.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    cluster, training, plan = request.mixed_cluster, request.training, request.plan
    shares = shares_of(cluster, training, plan, request.problems)
    request.problems.raise_if_any()
    assert shares is not None
    steps = []
    for group, (replicas, m) in zip(cluster.groups, shares, strict=True):
        share = training.model_copy(update={"global_batch": replicas * m * plan.mbs})
        own_plan = plan.model_copy(update={"dp": replicas, "batch_shares": None})
        clock = clock_of(group, training, request.coefficient_overrides)
        step = resolve_step(
            replace(request, cluster=group, training=share, plan=own_plan),
            clock=clock,
            spread=cluster.num_devices > cluster.scale_up_domain,
        )
        group_replicas = uniform_replicas(step, group, share, table_of(step))
        if group_replicas.comm.local is not None:
            rule = (
                "has replicas take steps of their own, which groups of unlike devices cannot: they reduce in each step"
            )
            raise BadInput(Problem("techniques", rule))
        group_replicas.comm.replicated = True
        steps.append(GroupStep(group, share, step, group_replicas, clock))
    return steps, CrossGroupNetwork(outward(cluster), cluster.between is not None, request.cache)


def _groups_along_dp(request: StepRequest) -> PreparedStep:
    """The joint step of groups along dp."""
    steps, between = replica_classes(request)
    programs = build_joint([step.replicas for step in steps], between)
    groups = tuple(step.prepared(request.model, program) for step, program in zip(steps, programs, strict=True))
    plan = replace(groups[0].plan, dp=sum(group.plan.dp for group in groups))
    return replace(groups[0], cluster=request.cluster, training=request.training, plan=plan, groups=groups)


def stages_of(cluster: MixedCluster, plan: PlanSpec, problems: ProblemList) -> list[int] | None:
    """Number of pipeline stages of each group; None, with problems, where a group would hold part of a stage."""
    before = len(problems)
    if plan.batch_shares is not None:
        problems.add("plan.batch_shares", plan.batch_shares, "is for groups along dp, and group_axis is pp")
    if plan.order[-1] != "pp" and (plan.order[-1] != "ep" or plan.order[-2] != "pp"):
        problems.add("plan.order", list(plan.order), "must have pp last, so that stages are neighbouring devices")
    if plan.offload.activations or plan.offload.params:
        problems.add("plan.offload", plan.offload, "must leave activations and weights where groups lie along pp")
    _refuse_sent(plan, problems)
    each, rest = divmod(cluster.num_devices, plan.pp)
    if rest:
        rule = f"must divide the {cluster.num_devices} devices of all groups: each stage has as many"
        problems.add("plan.pp", plan.pp, rule)
        return None
    for i, group in enumerate(cluster.groups):
        if group.num_devices % each:
            rule = f"must hold whole stages: a multiple of {cluster.num_devices} devices / pp {plan.pp} = {each}"
            problems.add(f"cluster.groups.{i}", f"{group.num_devices} devices", rule)
    return None if len(problems) > before else [group.num_devices // each for group in cluster.groups]


def staged_replicas(request: StepRequest) -> tuple[CrossGroupPipeline, list[GroupStep]]:
    """The pipeline of groups along pp, and each group's step.

    Consecutive stages of every replica lie on one group and are priced on its devices.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    cluster, training = request.mixed_cluster, request.training
    stages = stages_of(cluster, request.plan, request.problems)
    request.problems.raise_if_any()
    assert stages is not None
    spread = cluster.num_devices > cluster.scale_up_domain
    clocks = [clock_of(group, training, request.coefficient_overrides) for group in cluster.groups]
    steps = [
        resolve_step(request, clock=clock, group=group, spread=spread)
        for group, clock in zip(cluster.groups, clocks, strict=True)
    ]
    first = steps[0]
    of_stage = np.repeat(np.arange(len(stages)), stages)
    of_part = of_stage[first.schedule.placement[:, 0]]
    split = StagePlacement(of_stage, of_part, outward(cluster), cluster.between is not None, request.cache)
    joined = joined_stage_costs(split, [step.stages for step in steps])
    table = table_of(replace(first, stages=joined))
    members = [
        uniform_replicas(step, group, training, table) for step, group in zip(steps, cluster.groups, strict=True)
    ]
    comm = CrossGroupComm(split, [x.comm for x in members], joined)
    staged = CrossGroupPipeline(
        stages=joined,
        schedule=table,
        plan=first.plan,
        cluster=cluster.groups[0],
        coefficients=first.coefficients,
        comm=comm,
        split=split,
        members=tuple(members),
    )
    zipped = zip(cluster.groups, steps, members, clocks, strict=True)
    return staged, [GroupStep(group, training, step, one, clock) for group, step, one, clock in zipped]


def _groups_along_pp(request: StepRequest) -> PreparedStep:
    """The step of groups along pp."""
    staged, steps = staged_replicas(request)
    program = build_joint([staged])[0]
    groups = []
    for g, step in enumerate(steps):
        own = (program.stage >= 0) & (staged.split.of_stage[np.maximum(program.stage, 0)] == g)
        view = replace(program, stage=np.where(own, program.stage, -1), row=np.where(own, program.row, -1))
        stages = stage_costs_of_group(staged.split, g, step.step.stages, request.plan.tp * request.plan.cp)
        groups.append(replace(step.prepared(request.model, view), stages=stages))
    return replace(
        groups[0],
        cluster=request.cluster,
        stages=staged.stages,
        program=program,
        groups=tuple(groups),
        group_axis="pp",
    )
