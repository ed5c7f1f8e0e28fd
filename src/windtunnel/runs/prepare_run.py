"""From a scenario to the program of its run: the step, its degraded forms, tiers, failures, nodes and times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.catalog.run_tables import profile_of
from windtunnel.errors import BadInput, Problem
from windtunnel.runs.checkpoint.interval import Level, levels_of, optimal_interval_s
from windtunnel.runs.checkpoint.tier_seconds import Saver, TierSeconds, tier_seconds
from windtunnel.runs.event_loop.program import Job, Kinds, Market, Nodes, Program, Repair, Restart, Tiers
from windtunnel.runs.event_loop.replicate import Frailty, seed_of
from windtunnel.runs.failures import kinds_of
from windtunnel.runs.fewer_nodes import convert_s, nodes_per_unit, slower_by_missing
from windtunnel.runs.in_process_restart import in_process_restart_s
from windtunnel.runs.rate_intervals import assumed_of_rates, rate_shapes
from windtunnel.runs.spot.market import market_drawer
from windtunnel.runs.step_waits import Waited, step_waits
from windtunnel.specs.run import DAY_S, CheckpointTier, FailureProfile, Policy, RunSpec
from windtunnel.techniques import Applied, applied, idle, on_run_section
from windtunnel.training.step_figures.checkpoint_bytes import CheckpointBytes, checkpoint_bytes

if TYPE_CHECKING:
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.scenario import Scenario
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.training.step_setup import PreparedStep

SPOT_SHARE = 0.4
"""Price of a spot device over that on demand where none is stated: a prior, 0.3 to 0.6 at the large clouds."""
_SPOT_LENGTHS = 4.0
"""Ideal durations of the run for which a spot fleet is drawn; a run that takes longer meets the same nodes again."""
_SPOT_MOST_S = 200 * DAY_S


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run with everything decided."""

    scenario: Scenario
    run: RunSpec
    folder: Path
    step: TrainingResult
    prepared: PreparedStep
    profile: FailureProfile
    program: Program
    frailty: Frailty
    steps: float
    tokens: float
    state: CheckpointBytes
    tiers: tuple[TierSeconds, ...]
    levels: tuple[Level, ...]
    optimal_interval_s: float
    assumed: tuple[tuple[str, str, str], ...]
    """(field, value, why)."""
    waited: Waited | None = None
    """What workers of unequal speed cost a step; None: all are alike."""
    replans: tuple[tuple[int, str], ...] = ()
    """Nodes missing from which on another plan is run, and that plan in words; empty where the plan stays."""

    @property
    def techniques(self) -> tuple[Applied, ...]:
        """Published systems that act on its step or on the run itself."""
        chosen = applied(self.scenario.techniques)
        unused = idle(chosen, self.scenario, "run")
        named = {t.technique.id for t in chosen}
        implied = [t for t in self.prepared.techniques if t.technique.id not in named]  # by the framework
        return (*implied, *(t for t in chosen if t.technique.id not in unused))

    @property
    def ideal_s(self) -> float:
        """Wall time without failures and saves."""
        return self.program.job.work_s

    def with_program(self, program: Program) -> PreparedRun:
        """The same run with another program."""
        return replace(self, program=program)


def prepare_run(scenario: Scenario, folder: Path, step: TrainingResult, prepared: PreparedStep) -> PreparedRun:
    """Everything that the replications of a run read.

    Args:
        scenario: With its `run` section.
        folder: Folder that its paths are relative to.
        step: The simulated step.
        prepared: Its program.

    Raises:
        BadInput: everything wrong with the run, at once.
    """
    run = scenario.run
    assert run is not None
    run = on_run_section(applied(scenario.techniques), run, scenario)
    profile = profile_of(run)
    member = prepared.members[0]
    plan = member.plan
    tokens_per_step = step.tokens_per_s * step.step_time_s
    steps = run.steps if run.steps is not None else math.ceil((run.tokens or 0.0) / tokens_per_step)
    passes = max((row["forward_s"] + row["backward_s"] for row in step.stages), default=0.0) * plan.m
    slow = slower_by_missing(run, scenario, prepared, step)
    figures = StepFigures(step.step_time_s, float(steps), min(passes, step.step_time_s), slow.slow)
    parts = run_parts(run, profile, prepared, figures, folder)
    return PreparedRun(
        scenario=scenario,
        run=run,
        folder=folder,
        step=step,
        prepared=prepared,
        profile=profile,
        program=parts.program,
        frailty=Frailty(profile.node_variation, profile.bad_node_share, profile.bad_node_factor, rate_shapes(profile)),
        steps=parts.steps,
        tokens=float(steps) * tokens_per_step,
        waited=parts.waited,
        replans=slow.changes,
        state=parts.state,
        tiers=parts.tiers,
        levels=parts.levels,
        optimal_interval_s=parts.optimal_interval_s,
        assumed=_assumed(run, profile, parts),
    )


def with_spares(x: PreparedRun, spares: int) -> PreparedRun:
    """The same run with another number of hot spares; of a spot fleet it asks for as many nodes more."""
    program = replace(x.program, nodes=x.program.nodes._replace(spares=spares))
    market = _market(x.run, x.folder, program.nodes, program.job.work_s)
    return x.with_program(replace(program, draw_market=market))


def with_policy(x: PreparedRun, policy: Policy) -> PreparedRun:
    """The same run with another policy for missing nodes.

    Raises:
        BadInput: saves follow each other faster than they can be written.
    """
    run = x.run.model_copy(update={"recovery": x.run.recovery.model_copy(update={"policy": policy})})
    fewer = slower_by_missing(run, x.scenario, x.prepared, x.step)
    job = x.program.job._replace(slow_by_missing=fewer.slow)
    return replace(with_run(x.with_program(replace(x.program, job=job)), run), replans=fewer.changes)


def with_run(x: PreparedRun, run: RunSpec) -> PreparedRun:
    """The same run with other saves; its step, failures and nodes stay.

    Raises:
        BadInput: saves follow each other faster than they can be written.
    """
    passes = max((row["forward_s"] + row["backward_s"] for row in x.step.stages), default=0.0)
    passes *= x.prepared.members[0].plan.m
    step_time_s = x.step.step_time_s
    steps = x.tokens / (x.step.tokens_per_s * step_time_s)
    figures = StepFigures(step_time_s, float(round(steps)), min(passes, step_time_s), x.program.job.slow_by_missing)
    parts = run_parts(run, x.profile, x.prepared, figures, x.folder)
    return replace(
        x,
        run=run,
        program=parts.program,
        tiers=parts.tiers,
        levels=parts.levels,
        optimal_interval_s=parts.optimal_interval_s,
        assumed=_assumed(run, x.profile, parts),
    )


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What a run reads of its step."""

    step_time_s: float
    steps: float
    """Of the whole run, all workers being alike."""
    hideable_s: float
    """Seconds of forward and backward behind which a lazy copy can run."""
    slow_by_missing: Floats
    """Factor on step time with so many replicas missing, shape (D + 1,)."""


@dataclass(frozen=True, slots=True)
class RunParts:
    """The program of a run, and what it was decided from."""

    program: Program
    steps: float
    waited: Waited | None
    state: CheckpointBytes
    tiers: tuple[TierSeconds, ...]
    levels: tuple[Level, ...]
    optimal_interval_s: float


def run_parts(
    run: RunSpec, profile: FailureProfile, prepared: PreparedStep, step: StepFigures, folder: Path
) -> RunParts:
    """Saves, failures, nodes and restarts of a run of a step.

    Args:
        run: The run, techniques included.
        profile: Its failures.
        prepared: The step's program, for its state and cluster.
        step: The step's figures.
        folder: Folder that the run's files are relative to.

    Raises:
        BadInput: saves follow each other faster than they can be written.
    """
    cluster, member = prepared.cluster, prepared.members[0]
    state = checkpoint_bytes(prepared)
    saver = Saver(member.cluster, state, run.checkpoint, hideable_s=step.hideable_s)
    times = tuple(tier_seconds(saver, tier) for tier in run.checkpoint.tiers)
    kinds = _kinds(run, profile, member.cluster)
    nodes = _nodes(run, profile, cluster.nodes, nodes_per_unit(run, prepared))
    restart = _restart(run, cluster, step.step_time_s)._replace(convert_s=convert_s(run, saver.total_bytes))
    tiers = _tiers(run, times)
    levels = levels_of(kinds, tiers, nodes, restart)
    if run.spot is not None:
        levels = _with_reclaims(levels, run, folder, tiers, nodes, restart)
    steps, waited = step.steps, None
    if run.stragglers is not None:
        waited = step_waits(run.stragglers, member.plan.dp, run.seed)
    if waited is not None:
        steps = math.ceil(steps / waited.progress) + waited.delay
    work_s = steps * step.step_time_s * (1.0 if waited is None else min(waited.factor, 1.0))
    best = optimal_interval_s(levels, at_risk_always=profile.while_restarting, least_s=step.step_time_s, most_s=work_s)
    best = max(math.ceil(best / step.step_time_s - 0.5), 1) * step.step_time_s
    interval = _interval_s(run, step.step_time_s, best)
    times = tuple(
        found.waiting(tier, interval * tier.every) for found, tier in zip(times, run.checkpoint.tiers, strict=True)
    )
    tiers = _tiers(run, times)
    _refuse(run, tiers, interval, step.step_time_s)
    maintenance = run.maintenance
    job = Job(
        work_s=work_s,
        interval_s=interval,
        slow_by_missing=step.slow_by_missing,
        maintenance_every_s=maintenance.every_s if maintenance else math.inf,
        maintenance_s=maintenance.lasts_s if maintenance else 0.0,
        most_s=run.limit_days * DAY_S,
        waits=1.0 if waited is None else max(waited.factor, 1.0),
    )
    market = _market(run, folder, nodes, work_s)
    program = Program(job, kinds, tiers, nodes, _repair(run, profile), restart, draw_market=market)
    return RunParts(program, float(steps), waited, state, times, tuple(levels), best)


def least_program(run: RunSpec, profile: FailureProfile, cluster: ClusterSpec) -> Program:
    """What all plans of a cluster share in their programs: failures, nodes, restarts; saves and loads are free."""
    free = np.zeros(len(run.checkpoint.tiers))
    every = np.array([t.every for t in run.checkpoint.tiers], np.int64)
    tiers = Tiers(every, free, free, free, np.ones(len(free), np.int64))
    job = Job(1.0, 1.0, np.ones(1), math.inf, 0.0, run.limit_days * DAY_S)
    nodes = _nodes(run, profile, cluster.nodes, 1)
    return Program(job, _kinds(run, profile, cluster), tiers, nodes, _repair(run, profile), _restart(run, cluster, 0.0))


def _kinds(run: RunSpec, profile: FailureProfile, cluster: ClusterSpec) -> Kinds:
    """Failures of a profile on a cluster."""
    return kinds_of(
        profile,
        run.checkpoint.tiers,
        cluster.devices_per_node,
        links_per_node=cluster.scale_out.nics_per_node,
        timeouts=run.recovery.timeouts,
    )


def _tiers(run: RunSpec, times: tuple[TierSeconds, ...]) -> Tiers:
    """Tiers as the loop reads them."""
    return Tiers(
        every=np.array([t.every for t in run.checkpoint.tiers], np.int64),
        block_s=np.array([t.block_s + t.slowed_s for t in times]),
        lag_s=np.array([t.lag_s for t in times]),
        load_s=np.array([t.load_s for t in times]),
        keep=np.array([t.copies for t in run.checkpoint.tiers], np.int64),
        corrupt=np.array([t.corrupt for t in run.checkpoint.tiers]),
        group=np.array([_group(t)[0] for t in run.checkpoint.tiers], np.int64),
        tolerates=np.array([_group(t)[1] for t in run.checkpoint.tiers], np.int64),
    )


_EVERY = 1 << 30


def _assumed(run: RunSpec, profile: FailureProfile, parts: RunParts) -> tuple[tuple[str, str, str], ...]:
    """(field, value, why) of what the run does not state."""
    of_tiers = (item for tier in parts.tiers for item in tier.assumed)
    return (*of_tiers, *_assumed_of_spot(run), *assumed_of_rates(profile))


def _assumed_of_spot(run: RunSpec) -> tuple[tuple[str, str, str], ...]:
    """The price of a spot fleet, where it is not stated."""
    if run.spot is None or run.spot.price_per_device_hour is not None:
        return ()
    share = f"{SPOT_SHARE:.0%} of the price on demand"
    return (("run.spot.price_per_device_hour", share, "not stated; 30 to 60 % at the large clouds"),)


def _group(tier: CheckpointTier) -> tuple[int, int]:
    """(neighbouring nodes that hold each other's copies, how many of them may go at once)."""
    if tier.to == "peer":
        return tier.group, tier.group - 1
    if tier.to == "erasure":
        return tier.group, tier.parity
    return 1, _EVERY if tier.to == "storage" else 0


def _market(run: RunSpec, folder: Path, nodes: Nodes, work_s: float) -> Callable[[int], Market] | None:
    """Draws the spot fleet of a replication; None without one."""
    if run.spot is None:
        return None
    length_s = min(max(_SPOT_LENGTHS * work_s, DAY_S), run.limit_days * DAY_S, _SPOT_MOST_S)
    return market_drawer(run.spot, folder, nodes.job + nodes.spares, length_s)


MEAN_FLEETS = 4
"""Drawn fleets whose mean stands for all in closed form."""


def drawn_fleets(x: PreparedRun) -> tuple[Market, ...]:
    """Fleets of the first replications, for `spot_mean`; empty where nodes stay."""
    draw = x.program.draw_market
    return () if draw is None else tuple(draw(seed_of(x.run.seed, i)) for i in range(MEAN_FLEETS))


def _with_reclaims(
    levels: list[Level], run: RunSpec, folder: Path, tiers: Tiers, nodes: Nodes, restart: Restart
) -> list[Level]:
    """Failures by the nearest tier that is left, with reclaims after which the last tier is.

    Reclaims within whose notice a tier saves lose nothing and are left out.
    """
    assert run.spot is not None
    if (tiers.block_s + tiers.lag_s)[tiers.tolerates == _EVERY].min(initial=math.inf) <= run.spot.notice_s:
        return levels
    market = market_drawer(run.spot, folder, nodes.job + nodes.spares, 30 * DAY_S)(run.seed)
    moments = np.unique(market.at[~market.comes & (market.at < market.cycle_s)])
    rate = len(moments) / market.cycle_s
    last = levels[-1]
    back = restart.schedule_s + restart.initialise_s + restart.compile_s + restart.refill_s + float(tiers.load_s[-1])
    whole = last.rate + rate
    restart_s = (last.rate * last.restart_s + rate * back) / whole if whole else 0.0
    return [*levels[:-1], replace(last, rate=whole, restart_s=restart_s)]


def _nodes(run: RunSpec, profile: FailureProfile, nodes: int, per_replica: int) -> Nodes:
    return Nodes(
        job=nodes,
        spares=run.recovery.spares,
        idle=run.recovery.pool_nodes,
        shared=run.recovery.shared_nodes,
        per_rack=profile.nodes_per_rack,
        per_replica=per_replica,
        shape=profile.weibull_shape,
        at_risk_always=profile.while_restarting,
    )


def _repair(run: RunSpec, profile: FailureProfile) -> Repair:
    """Repair of nodes: as the run says, else as long as the profile's site takes, else the run's defaults."""
    r = run.recovery
    auto_s, manual_share = r.auto_repair_s, r.manual_share
    own = {"auto_repair_s", "manual_repair_s", "manual_share"}
    if profile.repair_s is not None and not own & r.model_fields_set:
        auto_s, manual_share = profile.repair_s, 0.0
    return Repair(
        auto_s=auto_s,
        manual_s=r.manual_repair_s,
        manual_share=manual_share,
        auto_fails=r.auto_fails,
        manual_fails=r.manual_fails,
        crews=r.repair_crews,
        exponential=True,
        retire_after=r.retire_after,
        retire_window_s=r.retire_window_s,
    )


def _restart(run: RunSpec, cluster: ClusterSpec, step_time_s: float) -> Restart:
    r, ranks = run.recovery, cluster.nodes * cluster.devices_per_node
    return Restart(
        schedule_s=r.schedule_s,
        initialise_s=r.initialise_s,
        compile_s=r.compile_s,
        refill_s=r.refill_s,
        in_place_s=r.in_place_s if r.in_place_s is not None else in_process_restart_s(ranks, step_time_s),
        reselect_s=r.reselect_s,
        preempt_s=r.preempt_s,
        regrow_s=r.regrow_s if r.regrow_s is not None else 0.0,
        regrow_after_s=r.regrow_after_s,
        load_tries=float(r.load_tries),
    )


def _interval_s(run: RunSpec, step_time_s: float, best_s: float) -> float:
    """Ideal seconds of steps between two saves, a whole number of steps."""
    if run.checkpoint.interval_steps is not None:
        return run.checkpoint.interval_steps * step_time_s
    if run.checkpoint.interval == "auto":
        return best_s
    return max(round(float(run.checkpoint.interval) / step_time_s), 1) * step_time_s


def _refuse(run: RunSpec, tiers: Tiers, interval_s: float, step_time_s: float) -> None:
    """Refuse saves that follow each other faster than they can be written.

    Raises:
        BadInput: with every tier that is too slow.
    """
    problems = []
    for k, tier in enumerate(run.checkpoint.tiers):
        period = interval_s * int(tiers.every[k])
        takes = float(tiers.lag_s[k])
        if takes > period and run.checkpoint.interval != "auto":
            field = "run.checkpoint.interval" if tiers.every[k] == 1 else f"run.checkpoint.tiers.{k}.every"
            rule = f"saves to {tier.to} follow each other after {period:.1f} s and take {takes:.1f} s in the background"
            problems.append(Problem(field, f"must leave time to save: {rule}", f"{interval_s:.1f} s"))
    if run.checkpoint.interval_steps is None and run.checkpoint.interval != "auto":
        if float(run.checkpoint.interval) < 0.5 * step_time_s:
            rule = f"must be at least one step of {step_time_s:.2f} s"
            problems.append(Problem("run.checkpoint.interval", rule, f"{float(run.checkpoint.interval):g} s"))
    if problems:
        raise BadInput(problems)
