"""`run:`, a training run from its first step to its last: how much, failures, checkpoints, recovery, start and grid."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Bytes, BytesPerS, Count, Inconsistent, Named, Seconds, Spec
from windtunnel.specs.run_spot import SpotSpec
from windtunnel.units import parse_quantity

DAY_S = 86400.0


def _number(value: Any) -> Any:
    """A count that may be written with a suffix: 15e12, `15T`."""
    if isinstance(value, str):
        scale = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}.get(value.strip()[-1:].upper())
        try:
            return float(value.strip()[:-1]) * scale if scale else float(value)
        except ValueError:
            raise ValueError("must be a number such as 15e12 or 15T") from None
    return value


def _seconds_or_auto(value: Any) -> Any:
    if value == "auto":
        return value
    number = parse_quantity(value, "s") if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number <= 1e9:
        raise ValueError("must be `auto` or a time such as `30 min`")
    return float(number)


_NUMBER = Annotated[float, Field(gt=0, le=1e24)]
Amount = Annotated[float, BeforeValidator(_number, json_schema_input_type=_NUMBER | str), Field(gt=0, le=1e24)]
Share = Annotated[float, Field(ge=0, le=1)]

Policy = Literal["restart", "shrink", "reshape", "reroute", "rebalance"]
"""What a job does without some of its nodes (`RecoverySpec.policy`)."""
Radius = Literal["process", "node", "rack", "job"]


class FailureCause(Spec):
    """One cause of failures: how often, what it takes down, how long until somebody knows and what follows."""

    name: str = Field(min_length=1)
    """Name of the cause in results."""
    per_1000_node_days: float | None = Field(default=None, ge=0)
    """Failures of 1,000 nodes in a day of running."""
    per_1000_device_days: float | None = Field(default=None, ge=0)
    """Failures of 1,000 devices in a day of running."""
    per_job_day: float | None = Field(default=None, ge=0)
    """Failures of the job as a whole in a day of running, whatever its size: software, storage."""
    per_1000_rack_days: float | None = Field(default=None, ge=0)
    """Failures of 1,000 racks in a day of running."""
    per_link_month: float | None = Field(default=None, ge=0, le=30)
    """Failures of one link between a node's port and its switch in 30 days; a node has one for each port."""
    per_switch_month: float | None = Field(default=None, ge=0, le=30)
    """Failures of one switch of a rack in 30 days; a rack has one for each port of a node (rail-optimised)."""
    radius: Radius = "node"
    """What is lost: the processes alone (host memory stays), the node, its rack, or all that the job has in memory
    while its nodes stay (`job`)."""
    detect_s: Seconds = 60.0
    """From the failure to the moment when somebody or something knows; a collective's time-out for a hang."""
    diagnose_s: Seconds = 0.0
    """From there to knowing which node to replace."""
    outage_s: Seconds = 0.0
    """How long nothing can restart (storage or network are down)."""
    slow: float = Field(default=1.0, ge=1.0, le=1000)
    """Above 1 the job goes on, slower by this factor, until the straggler is detected, diagnosed and replaced."""
    silent: bool = False
    """The job goes on until detection, and everything since the failure is lost (corrupt state, NaN)."""
    drains: bool = False
    """The job saves before it stops (announced maintenance, an evicted straggler)."""
    in_place: bool = False
    """Processes restart on the same nodes; nothing is scheduled."""
    hang: bool = False
    """Nothing says so but a time-out: the first one of `run.recovery.timeouts` stands for `detect_s`."""
    rate_interval: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] | None = None
    """80 % interval of the rate, in its own unit, where the rate was counted (`calibrate --from incidents`); each
    replication of a run draws its rate from it."""

    @model_validator(mode="after")
    def _one_rate(self) -> FailureCause:
        stated = [f for f in _RATES if getattr(self, f) is not None]
        if len(stated) != 1:
            raise ValueError(f"needs one of {', '.join(_RATES)}")
        if self.slow > 1 and self.silent:
            raise ValueError("a cause is a straggler (`slow`) or silent, not both")
        ends = self.rate_interval
        if ends is not None and not ends[0] <= self.rate <= ends[1]:
            raise ValueError(f"`rate_interval` {ends[0]:g} to {ends[1]:g} must hold the rate, {self.rate:g}")
        return self

    @property
    def rate(self) -> float:
        """The stated rate, in its own unit."""
        return next(float(found) for f in _RATES if (found := getattr(self, f)) is not None)


_OF_PARTS = ("per_link_month", "per_switch_month")
_RATES = ("per_1000_node_days", "per_1000_device_days", "per_job_day", "per_1000_rack_days", *_OF_PARTS)


class FailureProfile(Spec):
    """Failures of a site, as data."""

    name: str = ""
    """Name of the profile in results."""
    source: str = ""
    """Where the rates come from."""
    causes: tuple[FailureCause, ...] = ()
    """What fails, how often, and what is lost."""
    weibull_shape: float = Field(default=1.0, gt=0.1, le=10)
    """Of times between failures of one node: 1 exponential, below 1 infant mortality, above 1 wear."""
    node_variation: float = Field(default=0.0, ge=0, le=10)
    """Coefficient of variation of failure rates between nodes (gamma): some nodes fail more often than others."""
    bad_node_share: Share = 0.0
    """Nodes that fail more often until a repair finds out why."""
    bad_node_factor: float = Field(default=1.0, ge=1, le=1e6)
    """How much more often those nodes fail."""
    nodes_per_rack: Count = 4
    """Nodes of a rack, which causes of radius `rack` take down together."""
    while_restarting: bool = True
    """Nodes also fail while the job restarts."""
    repair_s: Annotated[Seconds, Field(gt=0)] | None = None
    """Mean time until a node is back, where the site's own is known: it stands for the automatic and manual repair of
    `run.recovery` unless those are set."""
    scale: float = Field(default=1.0, ge=0, le=1e6)
    """Multiplies every rate: what if this site is half as reliable?"""


class CheckpointTier(Spec):
    """Where checkpoints go, from near to far."""

    to: Literal["device", "host", "peer", "erasure", "drive", "storage"]
    """A second copy in device memory, host memory, host memory of other nodes, parity over a group of nodes, the
    node's drives, shared storage."""
    mode: Literal["sync", "async", "lazy"] = "sync"
    """`sync` stops the steps until the copy can be loaded; `async` until it is in host memory; `lazy` copies to host
    memory behind forward and backward and stops only for what is left of it before the update."""
    every: Count = 1
    """Intervals between two saves to this tier."""
    group: Count = 2
    """Nodes that hold each other's copies (`peer`), or of one parity group (`erasure`)."""
    parity: Count = 1
    """Nodes of an erasure group that may be lost at once."""
    keep: Count | None = None
    """Copies that are kept: a silent error is only undone while a sound copy is left. Absent: 1,000 on storage,
    else 2."""
    every_replica: bool | None = None
    """Every data-parallel replica saves all that its devices hold, weights that others hold too, so that processes
    restart from what is near; else each byte is saved once, in parts. Absent: in device and host memory and with peers
    every replica, in files and parity groups each byte once."""
    interference: Share = 0.03
    """Share of the time of an `async` or `lazy` save's rest by which it slows the steps (ports, host memory).
    Assumed."""
    pinned: bool = True
    """Host buffers are page-locked."""
    buffer_bytes: Bytes | None = None
    """Host memory that one writing process fills with copies which are not yet written on: a save waits until there is
    room. Absent: as much as it needs, and saves that follow each other faster than they are written are refused."""
    block_s: Seconds | None = None
    """Measured: how long a save stops the steps; absent: from bytes and rates."""
    save_s: Seconds | None = None
    """Measured: from the start of a save until it can be loaded."""
    load_s: Seconds | None = None
    """Measured: loading and spreading the state."""
    corrupt: Share = 0.0
    """Probability that a copy turns out to be unusable when it is loaded. Then the next nearest copy is loaded, of the
    last tier its copy before."""

    @property
    def of_every_replica(self) -> bool:
        """Whether replicas save what others save too."""
        return self.to in ("device", "host", "peer") if self.every_replica is None else self.every_replica

    @property
    def copies(self) -> int:
        """Copies that are kept."""
        return self.keep if self.keep is not None else 1000 if self.to == "storage" else 2


class CheckpointSpec(Spec):
    """How the state is saved."""

    interval: Annotated[float | Literal["auto"], BeforeValidator(_seconds_or_auto)] = "auto"
    """Seconds of steps between saves, such as `30 min`; `auto` is the interval of the shortest expected run."""
    interval_steps: Count | None = None
    """Steps between saves, in place of `interval`."""
    tiers: tuple[CheckpointTier, ...] = (CheckpointTier(to="storage"),)
    """Where checkpoints go, from near to far."""
    storage_write_bytes_per_s: BytesPerS | None = None
    """What the shared storage takes from all nodes together; absent: 1 GB/s a node (assumed)."""
    storage_read_bytes_per_s: BytesPerS | None = None
    """Rate of all reads of the shared storage together; absent: that of writes."""
    writer_bytes_per_s: BytesPerS | None = None
    """What one writing process serialises and hands over."""
    parallel_writers: bool = True
    """All data-parallel replicas write their part; otherwise the first replica writes everything."""
    bytes: Bytes | None = None
    """Of one checkpoint; absent: weights and optimizer state of the plan."""

    @model_validator(mode="after")
    def _one_interval(self) -> CheckpointSpec:
        if self.interval_steps is not None and self.interval != "auto":
            raise ValueError("needs one of `interval` and `interval_steps`")
        if not self.tiers:
            raise Inconsistent([Problem("tiers", "needs one tier at least", [])])
        return self


class TimeoutsSpec(Spec):
    """Who notices a hang, from inside out; each should leave the one inside time to act first."""

    collective_s: Annotated[Seconds, Field(gt=0)] = 600.0
    """A collective aborts: its processes restart in place. 10 minutes is PyTorch's default for NCCL."""
    watchdog_s: Annotated[Seconds, Field(gt=0)] | None = None
    """The launcher sees no step and kills the processes: they are initialised anew on the same nodes."""
    scheduler_s: Annotated[Seconds, Field(gt=0)] | None = None
    """The scheduler sees no sign of life and ends the job: it is queued and scheduled anew, and nothing in memory is
    left."""
    requeue_s: Seconds = 600.0
    """In the queue after the scheduler ended the job. Assumed."""

    @property
    def first(self) -> tuple[str, float]:
        """Which one fires first, and after how long; of equal ones the outer one."""
        stated = {"scheduler": self.scheduler_s, "watchdog": self.watchdog_s, "collective": self.collective_s}
        found = [(name, s) for name, s in stated.items() if s is not None]
        return min(found, key=lambda item: item[1])

    @property
    def wrong_order(self) -> str:
        """What does not nest, in words; empty: all does."""
        stated = [
            ("collective_s", self.collective_s),
            ("watchdog_s", self.watchdog_s),
            ("scheduler_s", self.scheduler_s),
        ]
        known = [(name, s) for name, s in stated if s is not None]
        wrong = [f"{a} {x:g} s is not below {b} {y:g} s" for (a, x), (b, y) in pairwise(known) if x >= y]
        return "; ".join(wrong)


class RecoverySpec(Spec):
    """What happens after a failure, and with which nodes."""

    policy: Policy = "restart"
    """`restart` waits for a full set of nodes; the others go on with what is left and grow again: `shrink` with whole
    replicas, `reshape` under the best plan for the nodes, `reroute` with micro-batches of missing ranks computed by the
    same stage of other replicas, `rebalance` so too, with layers moved between stages and clocks raised."""
    convert_processes: int = Field(default=1, ge=0, le=10**6)
    """Processes that convert a checkpoint for `reshape`; 0: it can be loaded as it is."""
    clock_up: float = Field(default=1.0, ge=1.0, le=2.0)
    """How much `rebalance` may raise the clock of stages that have most to do."""
    spares: int = Field(default=0, ge=0, le=10**6)
    """Hot spares: nodes that join at once."""
    pool_nodes: int = Field(default=0, ge=0, le=10**6)
    """Idle nodes beyond the spares, which the job has after it is scheduled anew."""
    shared_nodes: int = Field(default=0, ge=0, le=10**6)
    """Nodes that other work gives up when asked."""
    least_replicas: Share = 0.5
    """Share of the data-parallel replicas below which `shrink` waits."""
    schedule_s: Seconds = 60.0
    """From knowing the failed node to running processes on all nodes."""
    initialise_s: Seconds = 120.0
    """Process groups, communicators, first allocation."""
    compile_s: Seconds = 30.0
    """Compilation, CUDA graphs and slow first steps."""
    refill_s: Seconds = 15.0
    """Data loaders find their place and fill their buffers."""
    in_place_s: Seconds | None = None
    """Stands for schedule and initialise where processes restart in place; absent: the sum of its parts, one step
    included (`windtunnel.runs.in_process_restart`)."""
    reselect_s: Seconds = 300.0
    """Choosing hosts anew where spares have run out."""
    preempt_s: Seconds = 1200.0
    """Taking one node from other work."""
    timeouts: TimeoutsSpec | None = None
    """Of causes with `hang`; absent: each cause's own `detect_s`."""
    load_tries: Annotated[int, Field(ge=1, le=1000)] = 1
    """How often a corrupt copy is tried, each time after a start of all processes, before the next copy is loaded."""
    regrow_after_s: Seconds = 0.0
    """A job on fewer replicas takes nodes back no sooner than so long after its last start."""
    regrow_s: Seconds | None = None
    """Joining nodes to a job that runs on fewer replicas; absent: schedule and initialise."""
    auto_repair_s: Seconds = 7200.0
    """Automatic repair of a node: reset, tests."""
    manual_repair_s: Seconds = 172800.0
    """Mean time of a repair by hand."""
    manual_share: Share = 0.5
    """Nodes that automatic repair hands on to people."""
    auto_fails: Share = 0.0
    """Bad nodes that leave automatic repair as bad as they came."""
    manual_fails: Share = 0.0
    """Share of the repairs by hand after which the node fails again."""
    repair_crews: int = Field(default=0, ge=0, le=10**6)
    """Repairs by hand at a time; 0: as many as needed."""
    retire_after: int = Field(default=0, ge=0, le=100)
    """Failures of one node within `retire_window_s` after which it is not used again; 0: never."""
    retire_window_s: Seconds = 604800.0
    """Time within which a node's failures are counted before it is retired."""


class MaintenanceSpec(Spec):
    """Planned stops."""

    every_s: Annotated[Seconds, Field(gt=0)] = 30 * DAY_S
    """Seconds between the beginnings of two planned stops."""
    lasts_s: Seconds = 4 * 3600.0
    """Seconds that one of them lasts."""


class GridSpec(Spec):
    """Electricity: grams of CO₂ a kilowatt-hour, one value for all hours or a file of hours."""

    g_co2_per_kwh: Annotated[float, Field(ge=0, le=5000)] | None = None
    """Grams of CO₂ a kilowatt-hour, for all hours."""
    file: str | None = None
    """CSV with `time_utc, g_co2_per_kwh`, relative to the scenario; the run's hours are found by `run.start`."""

    @model_validator(mode="after")
    def _one_of_both(self) -> GridSpec:
        if (self.file is None) == (self.g_co2_per_kwh is None):
            raise ValueError("needs one of `file` and `g_co2_per_kwh`")
        return self


class StragglersSpec(Spec):
    """How unequal the workers of a step are, and for whom it waits."""

    workers: Count | None = None
    """Workers whose gradients make a step; absent: the data-parallel replicas."""
    law: Literal["equal", "lognormal", "exponential", "pareto"] = "lognormal"
    """Of a worker's time over that of the typical (median) one, which the simulated step stands for."""
    spread: float = Field(default=0.1, ge=0, le=10)
    """Lognormal: standard deviation of the logarithm. Pareto: one over the exponent of the tail (0.5: infinite
    variance). Exponential: not read."""
    floor: Share = 0.0
    """Share of the typical worker's time that every worker takes at least; the law is of the rest."""
    persistent: Share = 0.0
    """Share of the variance that stays with a worker; the rest is drawn anew each step."""
    load_share: Share = 1.0
    """Share of a worker's time that grows with its part of the batch."""
    wait: Named = "all"
    """For whom a step waits: `all`, `fastest`, `gradient-coding`, `sr-sgc`, `m-sgc`, `berrut`, or
    `{id: {knob: value}}`."""


class RunSearch(Spec):
    """What `windtunnel run S --search` chooses from, and what it makes best."""

    objective: Literal["days", "run_cost", "carbon_kg"] = "days"
    """What is made least."""
    intervals: tuple[Annotated[float | Literal["auto"], BeforeValidator(_seconds_or_auto)], ...] | None = None
    """Save intervals, such as `30 min`; `auto` is the best one of the closed form. Absent: that one, and from a quarter
    of it to four times as long."""
    spares: tuple[Annotated[int, Field(ge=0, le=10**6)], ...] | None = None
    """Numbers of hot spares; absent: none, powers of two up to an eighth of the nodes, and the run's own."""
    tiers: tuple[tuple[CheckpointTier, ...], ...] | None = None
    """Sets of checkpoint tiers; absent: the run's own, and the usual ones (`runs.search.usual_tiers`)."""

    @model_validator(mode="after")
    def _some(self) -> RunSearch:
        for name in ("intervals", "spares", "tiers"):
            if getattr(self, name) == ():
                raise ValueError(f"{name} must list at least one value")
        if any(not tiers for tiers in self.tiers or ()):
            raise ValueError("each set of tiers needs one tier at least")
        return self


class RunSpec(Spec):
    """A training run from its first step to its last."""

    tokens: Amount | None = None
    """Tokens to train on."""
    steps: Amount | None = None
    """Optimizer steps, in place of tokens."""
    failures: str | FailureProfile = "rsc-1-2024"
    """A profile of the catalogue, a file of `calibrate --from incidents` (relative to the scenario), or a mapping."""
    failure_scale: float = Field(default=1.0, ge=0, le=1e6)
    """Multiplies every rate of the profile: what if this site is half as reliable? Sites differ by a factor of five."""
    checkpoint: CheckpointSpec = CheckpointSpec()
    """How often the run saves, and where to."""
    recovery: RecoverySpec = RecoverySpec()
    """What happens after a failure."""
    maintenance: MaintenanceSpec | None = None
    """Planned stops; absent: none."""
    spot: SpotSpec | None = None
    """Nodes that the provider adds and reclaims; absent: nodes stay."""
    stragglers: StragglersSpec | None = None
    """Workers of unequal speed in every step; absent: all are alike."""
    replications: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Simulated runs whose mean and quantiles are told."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed of all draws."""
    start: datetime | None = None
    """When the run begins; read for the hours of `grid`."""
    start_within: Seconds = 0.0
    """How much later than `start` the run may begin: it begins where the mean intensity over its expected time is least
    (needs `start` and `grid`)."""
    grid: str | GridSpec | None = None
    """Where electricity comes from; absent: no carbon."""
    pue: Annotated[float, Field(ge=1, le=5)] = 1.1
    """Energy of the building over that of its computers."""
    price_per_kwh: Annotated[float, Field(ge=0)] | None = None
    """US dollars; absent: energy is in the price of a device's hour."""
    search: RunSearch | None = None
    """What `windtunnel run S --search` chooses from; read by that alone."""
    limit_days: Annotated[float, Field(gt=0)] = 3650.0
    """Wall time at which a run that does not end is given up."""

    @model_validator(mode="after")
    def _one_amount(self) -> RunSpec:
        if self.start_within > 0 and (self.start is None or self.grid is None):
            raise ValueError("has `start_within` and needs `start` and `grid`: which hours are clean")
        if (self.tokens is None) == (self.steps is None):
            raise ValueError("needs one of `tokens` and `steps`")
        return self
