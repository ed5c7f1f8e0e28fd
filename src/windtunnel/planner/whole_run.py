"""What a plan's whole run takes: days, money and carbon through failures, expected in closed form, and their bounds.

The value of a plan is `runs.expected.expected_run` of its own step time, checkpoint bytes and degraded steps. Its bound
needs the step time alone: no run is shorter than its ideal days and the stops that failures force on every plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.catalog.run_tables import grid, profile_of
from windtunnel.cost.clock import idle_w
from windtunnel.errors import BadInput
from windtunnel.runs.bill import Rates
from windtunnel.runs.carbon import mean_g_co2_per_kwh
from windtunnel.runs.degraded_steps import by_micro_batches
from windtunnel.runs.event_loop.program import Market
from windtunnel.runs.event_loop.replicate import seed_of
from windtunnel.runs.expected import expected_run, least_stretch
from windtunnel.runs.prepare_run import MEAN_FLEETS, SPOT_SHARE, StepFigures, run_parts
from windtunnel.runs.reshaped_plans import in_proportion
from windtunnel.runs.spot.expected import spot_mean
from windtunnel.runs.spot.market import market_drawer
from windtunnel.runs.step_waits import STEP_WAITS, step_waits
from windtunnel.specs.run import DAY_S, FailureProfile, RunSpec
from windtunnel.specs.run_spot import SpotSpec
from windtunnel.techniques.knobs import named

if TYPE_CHECKING:
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.training.step_setup import PreparedStep

METRICS = ("days", "run_cost", "carbon_kg")
"""Objectives and limits that ask for the whole run."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """Expected figures of one plan's run."""

    days: float
    run_cost: float
    """Not a number without a price."""
    carbon_kg: float
    """Not a number without a grid, or without the power of the device."""
    spares: int
    ideal_days: float
    checkpoint_bytes: float
    interval_s: float
    """Between two saves."""
    save_s: float
    """How long a save of every tier stops the steps."""
    load_s: float
    """Of the farthest tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetting:
    """What the runs of all plans of one cluster share."""

    run: RunSpec
    profile: FailureProfile
    folder: Path
    spares: tuple[int, ...]
    """Numbers of hot spares to choose from."""
    rates: Rates
    """With the least spares."""
    tokens_per_step: float
    stretch: float
    """What every run takes over its ideal time at least."""
    least_g_co2_per_kwh: float
    deciding: str
    """The metric that chooses the spares."""

    fleets: dict[int, tuple[Market, ...]] = field(default_factory=dict)
    """Spares → drawn fleets of a run on spot nodes, the same for all plans; empty: nodes stay."""
    straggling: float = 1.0
    """What workers of unequal speed make of every run's steps at least, the best data-parallel degree taken."""

    @classmethod
    def of(
        cls,
        run: RunSpec,
        folder: Path,
        cluster: ClusterSpec,
        tokens_per_step: float,
        spares: tuple[int, ...],
        metric: str,
    ) -> RunSetting:
        """Setting of a cluster.

        Args:
            run: The run.
            folder: Folder that its files are relative to.
            cluster: What it runs on.
            tokens_per_step: Of all devices.
            spares: To choose from.
            metric: The first of the objectives and limits that asks for the run.
        """
        from windtunnel.runs.prepare_run import least_program

        profile = profile_of(run)
        fleets = _fleets(run, folder, cluster.nodes, spares)
        in_job, held = _least_nodes(fleets, cluster.nodes, min(spares))
        price = cluster.price_per_device_hour or cluster.device.price_per_hour
        rates = Rates(
            job_nodes=in_job,
            spares=held - in_job,
            devices_per_node=cluster.devices_per_node,
            idle_w=idle_w(cluster.device) if cluster.device.tdp_w else 0.0,
            price_per_device_hour=price if run.spot is None else _spot_price(run.spot, price),
            price_per_kwh=run.price_per_kwh,
            pue=run.pue,
        )
        return cls(
            run=run,
            profile=profile,
            folder=folder,
            spares=spares,
            rates=rates,
            tokens_per_step=tokens_per_step,
            stretch=least_stretch(least_program(run, profile, cluster)),
            least_g_co2_per_kwh=_least_g(run, folder),
            deciding=metric,
            fleets=fleets,
            straggling=_least_straggling(run, cluster.num_devices),
        )

    @property
    def steps(self) -> float:
        """Steps of the run."""
        if self.run.steps is not None:
            return self.run.steps
        return float(math.ceil((self.run.tokens or 0.0) / self.tokens_per_step))

    def expected(self, step: PreparedStep, step_time_s: float, mean_power_w: float) -> WholeRun:
        """Expected figures of a plan with the spares that are best for it.

        Args:
            step: The plan's step.
            step_time_s: Its simulated time.
            mean_power_w: Mean draw of one device in it.

        Raises:
            BadInput: the run's saves follow each other faster than this plan can write them.
        """
        cluster, run = step.members[0].cluster, self.run
        plan = step.members[0].plan
        slow = np.ones(1)
        if run.recovery.policy == "shrink":
            slow = by_micro_batches(plan, cluster, run.recovery.least_replicas)
        elif run.recovery.policy == "reshape":
            slow = in_proportion(cluster.nodes, run.recovery.least_replicas)
        figures = StepFigures(step_time_s, self.steps, min(passes_s(step), step_time_s), slow)
        parts = run_parts(run, self.profile, step, figures, self.folder)
        found = []
        for spares in self.spares:
            program = replace(parts.program, nodes=parts.program.nodes._replace(spares=spares))
            fleets = self.fleets.get(spares, ())
            spot = spot_mean(program, fleets) if fleets else None
            expected = expected_run(program, spot)
            rates = replace(self.rates, spares=spares)
            if spot is not None:
                rates = replace(self.rates, job_nodes=spot.in_job, spares=spot.held - spot.in_job)
            days = expected.wall_s / DAY_S
            grams = mean_g_co2_per_kwh(run, days, self.folder)
            bill = rates.bill(mean_power_w, expected.wall_s, expected.running_s, grams)
            found.append(
                WholeRun(
                    days=days,
                    run_cost=math.nan if bill.cost is None else bill.cost,
                    carbon_kg=math.nan if bill.carbon_kg is None or mean_power_w <= 0 else bill.carbon_kg,
                    spares=spares,
                    ideal_days=program.job.work_s / DAY_S,
                    checkpoint_bytes=run.checkpoint.bytes or parts.state.total,
                    interval_s=program.job.interval_s,
                    save_s=float(program.tiers.block_s.sum()),
                    load_s=float(program.tiers.load_s[-1]),
                )
            )
        return min(found, key=lambda one: (getattr(one, self.deciding), one.spares))

    # -- bounds, of step times and of joules of a device above idling in a step

    def least_wall_s(self, time_s: Any) -> Any:
        """Wall time that no plan with such a step is below."""
        return time_s * (self.steps * self.straggling * self.stretch * (1.0 - _ROUNDING))

    def least_kwh(self, time_s: Any, work_j: Any) -> Any:
        """Energy likewise."""
        r = self.rates
        idle = r.idle_w * (r.job_nodes + r.spares) * self.least_wall_s(time_s)
        joules = idle + work_j * (self.steps * self.straggling * r.job_nodes * (1.0 - _ROUNDING))
        return joules * (r.devices_per_node * r.pue / 3.6e6)

    def least_cost(self, time_s: Any, work_j: Any) -> Any:
        """Money likewise."""
        r = self.rates
        nodes = (r.job_nodes + r.spares) * r.devices_per_node
        held = (r.price_per_device_hour or 0.0) * nodes * self.least_wall_s(time_s) / 3600.0
        return held + (r.price_per_kwh or 0.0) * self.least_kwh(time_s, work_j)

    def least_carbon_kg(self, time_s: Any, work_j: Any) -> Any:
        """Carbon likewise."""
        return self.least_kwh(time_s, work_j) * (self.least_g_co2_per_kwh / 1000.0 * (1.0 - _ROUNDING))


_FLEET_S = 30 * DAY_S
"""For which fleets are drawn whose mean stands for all."""


def _fleets(run: RunSpec, folder: Path, nodes: int, spares: tuple[int, ...]) -> dict[int, tuple[Market, ...]]:
    """Spares → drawn fleets of a spot run; empty where nodes stay.

    Raises:
        BadInput: the trace cannot be read.
    """
    if run.spot is None:
        return {}
    found = {}
    for count in spares:
        draw = market_drawer(run.spot, folder, nodes + count, _FLEET_S)
        found[count] = tuple(draw(seed_of(run.seed, i)) for i in range(MEAN_FLEETS))
    return found


def _least_nodes(fleets: dict[int, tuple[Market, ...]], nodes: int, spares: int) -> tuple[float, float]:
    """(nodes in the job, nodes held), on average and at least, whatever the plan and the spares.

    Of a spot fleet no plan is sure to use a node; what is held is paid.
    """
    if not fleets:
        return float(nodes), float(nodes + spares)
    return 0.0, min(float(np.mean([_mean_held(m) for m in drawn])) for drawn in fleets.values())


def _mean_held(market: Market) -> float:
    """Nodes of a drawn fleet on average."""
    level = market.present + np.cumsum(np.where(market.comes, 1, -1))
    until = np.append(market.at[1:], market.cycle_s)
    return float((level * np.maximum(np.minimum(until, market.cycle_s) - market.at, 0.0)).sum() / market.cycle_s)


def _spot_price(spot: SpotSpec, on_demand: float | None) -> float | None:
    """Price of a spot device's hour, as `run` takes it."""
    if spot.price_per_device_hour is not None:
        return spot.price_per_device_hour
    return None if on_demand is None else SPOT_SHARE * on_demand


def _least_straggling(run: RunSpec, devices: int) -> float:
    """Steps of a run with unequal workers over those of equal ones, times the factor on each; the least of all plans.

    A plan has as many workers as data-parallel replicas: divisors of the devices.

    Raises:
        BadInput: the rule for whom a step waits is not known, or has no such knob.
    """
    spec = run.stragglers
    if spec is None:
        return 1.0
    name, given = named(spec.wait)
    STEP_WAITS.get(name, field="run.stragglers.wait").read(given, f"run.stragglers.wait.{name}")
    found = []
    for workers in (spec.workers,) if spec.workers else (n for n in range(1, devices + 1) if devices % n == 0):
        try:
            waited = step_waits(spec, workers, run.seed)
        except BadInput:  # a rule that so few workers cannot follow: no plan has them
            continue
        found.append(waited.factor / waited.progress)
    return min(found, default=1.0)


def passes_s(step: PreparedStep) -> float:
    """Seconds of forward and backward of the fullest stage in one step."""
    longest = 0.0
    for x in step.members:
        stage_of = x.schedule.placement[:, 0]
        for stage in x.own_stages.tolist():
            longest = max(longest, float(x.stages.seconds[:, stage_of == stage].sum()) * x.plan.m)
    return longest


def _least_g(run: RunSpec, folder: Path) -> float:
    """Grams of CO₂ a kilowatt-hour in the cleanest of the hours that a run may have."""
    if run.grid is None:
        return 0.0
    if isinstance(run.grid, str):
        known = grid(run.grid)
        return known.g_co2_per_kwh * (min(known.hours) * min(known.months) if run.start is not None else 1.0)
    if run.grid.g_co2_per_kwh is not None:
        return run.grid.g_co2_per_kwh
    return 0.0 if run.start is not None else mean_g_co2_per_kwh(run, 1.0, folder) or 0.0
