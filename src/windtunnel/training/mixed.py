"""Steps on groups of unlike devices: what each group runs, resolved and lowered with its own devices and network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.errors import ProblemList
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.cluster import MixedCluster, outward
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.between import Between
from windtunnel.training.known import Known
from windtunnel.training.laid import Replicas
from windtunnel.training.simulate import Prepared, ResolvedStep, clock_of, options_of, resolve_step, table_of
from windtunnel.training.staged import Split, Staged, StagedTraffic, joined_parts, own_parts
from windtunnel.training.step import build_joint
from windtunnel.training.traffic import Traffic


def prepare_mixed(
    model: ModelSpec, cluster: MixedCluster, training: TrainingSpec, plan: PlanSpec, techniques: tuple[Applied, ...],
    problems: ProblemList, coefficient_overrides: dict[str, Any] | None, known: Known | None = None,
) -> Prepared:  # fmt: skip
    """The joint step of all groups.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    run = _stages if plan.group_axis == "pp" else _replicas
    return run(model, cluster, training, plan, techniques, problems, coefficient_overrides, known)


def shares_of(
    cluster: MixedCluster, training: TrainingSpec, plan: PlanSpec, problems: ProblemList
) -> list[tuple[int, int]] | None:
    """(replicas, micro-batches per replica) of each group; None, with problems, where the plan does not divide."""
    inner = plan.tp * plan.pp * plan.cp
    replicas = []
    for i, group in enumerate(cluster.groups):
        if group.num_devices % inner:
            problems.add(
                f"cluster.groups.{i}", f"{group.num_devices} devices",
                f"must hold whole replicas: a multiple of tp · pp · cp = {inner}",
            )  # fmt: skip
        replicas.append(group.num_devices // inner)
    total = sum(replicas)
    if plan.dp not in ("auto", total):
        problems.add("plan.dp", plan.dp, f"must be auto or {total}, the replicas of all groups")
    if plan.zero == 3 and min(replicas) < 2:
        problems.add("plan.zero", 3, "shards inside each group, so that each needs two replicas or more")
    if plan.shard_group is not None:
        problems.add("plan.shard_group", plan.shard_group, "must be absent: each group shards over all its replicas")
    batch, mbs, given = training.global_batch, plan.mbs, plan.batch_shares
    if given is None:
        if total and batch % (mbs * total):
            problems.add(
                "training.global_batch", batch,
                f"must be divisible by mbs · dp = {mbs} · {total}, or plan.batch_shares must share it out",
            )  # fmt: skip
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


def _replicas(
    model: ModelSpec, cluster: MixedCluster, training: TrainingSpec, plan: PlanSpec, techniques: tuple[Applied, ...],
    problems: ProblemList, overrides: dict[str, Any] | None, known: Known | None,
) -> Prepared:  # fmt: skip
    """Groups along dp: each is a job of its own with its share of the batch, up to the reduction between them."""
    shares = shares_of(cluster, training, plan, problems)
    problems.raise_if_any()
    assert shares is not None
    steps: list[tuple[TrainingSpec, ResolvedStep, InstructionTable, float]] = []
    laid: list[Replicas] = []
    spread = cluster.num_devices > cluster.scale_up_domain
    for group, (replicas, m) in zip(cluster.groups, shares, strict=True):
        part = training.model_copy(update={"global_batch": replicas * m * plan.mbs})
        own = plan.model_copy(update={"dp": replicas, "batch_shares": None})
        clock = clock_of(group, training, overrides)
        step = resolve_step(
            model, group, part, own, techniques, problems, coefficient_overrides=overrides, clock=clock,
            known=known, spread=spread,
        )  # fmt: skip
        table = table_of(step)
        options = options_of(part, step.plan, step.behaviour, step.coefficients, step.techniques)
        traffic = Traffic(step.parts, step.plan, group, part, step.behaviour, options)
        traffic.replicated = True
        laid.append(Replicas(step.parts, table, step.plan, group, step.coefficients, traffic))
        steps.append((part, step, table, clock))
    programs = build_joint(laid, Between(outward(cluster), cluster.between is not None))
    seen = tuple(
        Prepared(
            model, group, part, step.plan, step.coefficients, step.behaviour, step.parts, table, program, clock
        )
        for group, (part, step, table, clock), program in zip(cluster.groups, steps, programs, strict=True)
    )  # fmt: skip
    whole = replace(seen[0].plan, dp=sum(r for r, _ in shares))
    return replace(seen[0], cluster=cluster, training=training, plan=whole, groups=seen)


def stages_of(cluster: MixedCluster, plan: PlanSpec, problems: ProblemList) -> list[int] | None:
    """Stages of each group; None, with problems, where the devices of a group are not a whole number of stages."""
    before = len(problems)
    if plan.batch_shares is not None:
        problems.add("plan.batch_shares", list(plan.batch_shares), "is for groups along dp, and group_axis is pp")
    if plan.order[-1] != "pp" and (plan.order[-1] != "ep" or plan.order[-2] != "pp"):
        problems.add("plan.order", list(plan.order), "must have pp last, so that stages are neighbouring devices")
    if plan.offload.activations or plan.offload.params:
        problems.add("plan.offload", plan.offload, "must leave activations and weights where groups lie along pp")
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


def _stages(
    model: ModelSpec, cluster: MixedCluster, training: TrainingSpec, plan: PlanSpec, techniques: tuple[Applied, ...],
    problems: ProblemList, overrides: dict[str, Any] | None, known: Known | None,
) -> Prepared:  # fmt: skip
    """Groups along pp: consecutive stages of every replica, each priced on its own group."""
    stages = stages_of(cluster, plan, problems)
    problems.raise_if_any()
    assert stages is not None
    steps = [
        resolve_step(
            model, cluster, training, plan, techniques, problems, coefficient_overrides=overrides,
            clock=clock_of(group, training, overrides), known=known, group=group,
            spread=cluster.num_devices > cluster.scale_up_domain,
        )
        for group in cluster.groups
    ]  # fmt: skip
    first = steps[0]
    of_stage = np.repeat(np.arange(len(stages)), stages)
    split = Split(
        of_stage, of_stage[first.table.placement[:, 0]], outward(cluster), cluster.between is not None
    )  # fmt: skip
    parts = joined_parts(split, [step.parts for step in steps])
    table = table_of(replace(first, parts=parts))
    options = [options_of(training, x.plan, x.behaviour, x.coefficients, x.techniques) for x in steps]
    traffic = [
        Traffic(x.parts, x.plan, group, training, x.behaviour, own)
        for x, group, own in zip(steps, cluster.groups, options, strict=True)
    ]
    members = tuple(
        Replicas(x.parts, table, x.plan, group, x.coefficients, own)
        for x, group, own in zip(steps, cluster.groups, traffic, strict=True)
    )
    staged = Staged(
        parts, table, first.plan, cluster.groups[0], first.coefficients, StagedTraffic(split, traffic, parts), split,
        members,
    )  # fmt: skip
    program = build_joint([staged])[0]
    ranks = plan.tp * plan.cp
    seen = []
    for g, (group, x) in enumerate(zip(cluster.groups, steps, strict=True)):
        own = (program.stage >= 0) & (of_stage[np.maximum(program.stage, 0)] == g)
        view = replace(program, stage=np.where(own, program.stage, -1), row=np.where(own, program.row, -1))
        seen.append(
            Prepared(
                model, group, training, x.plan, x.coefficients, x.behaviour, own_parts(split, g, x.parts, ranks), table,
                view, clock_of(group, training, overrides),
            )
        )  # fmt: skip
    return Prepared(
        model, cluster, training, first.plan, first.coefficients, first.behaviour, parts, table, program,
        seen[0].clock, tuple(seen), "pp",
    )  # fmt: skip
