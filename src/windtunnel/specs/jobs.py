"""Jobs on one cluster: where they come from, who is next, where they are placed, what a start costs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Count, Inconsistent, Named, Seconds, Spec, Watts
from windtunnel.specs.run import FailureProfile, GridSpec, Share


class JobClassSpec(Spec):
    """Jobs of one kind in a generated mix."""

    name: str = ""
    """Name of the class in results."""
    share: float = Field(default=1.0, gt=0, le=1e6)
    """Of the jobs, against the other classes' shares."""
    devices: Count = 1
    """Devices that a job asks for."""
    duration: Seconds | None = Field(default=None, gt=0)
    """Mean time on the first kind of the cluster's devices."""
    scenario: str | None = None
    """Training scenario, relative to this one, that says how fast the jobs run on what they get."""
    steps: float | None = Field(default=None, gt=0, le=1e12)
    """Mean number of its steps, in place of `duration`."""
    cv: float = Field(default=0.0, ge=0, le=20)
    """Coefficient of variation of durations or steps (log-normal)."""
    priority: int = Field(default=0, ge=-1000, le=1000)
    """Higher ones go first under policies that read priorities."""

    @model_validator(mode="after")
    def _one_length(self) -> JobClassSpec:
        if (self.duration is None) == (self.steps is None):
            raise ValueError("needs one of `duration` and `steps`")
        if self.steps is not None and self.scenario is None:
            raise ValueError("has `steps` and needs the `scenario` that they are of")
        return self


class GenerateSpec(Spec):
    """Jobs that arrive at random."""

    rate_per_hour: float = Field(gt=0, le=1e9)
    """Arrivals an hour, a Poisson process."""
    count: Count = 1000
    """Jobs that are submitted in all."""
    measure: tuple[int, int] | None = None
    """First and last job (the last one excluded) whose figures count; the others fill the cluster. Absent: all."""
    mix: str = "gavel-single"
    """Kinds, sizes and durations of jobs of a table of throughputs: `gavel-single` or `gavel-multi` (one device a job,
    or 1 to 8), `elasticflow` (1 to 16, with deadlines)."""
    deadline: tuple[float, float] | None = None
    """Least and most time from submission to a job's deadline, as parts of its duration; uniform between. Absent: half
    to one and a half with `elasticflow`, no deadlines otherwise."""
    classes: tuple[JobClassSpec, ...] = ()
    """Kinds of jobs of your own, in place of `mix`."""

    @model_validator(mode="after")
    def _window(self) -> GenerateSpec:
        if self.measure is not None and not 0 <= self.measure[0] < self.measure[1] <= self.count:
            rule = f"must be two numbers of jobs, rising, between 0 and count = {self.count}"
            raise Inconsistent([Problem("measure", rule, list(self.measure))])
        if self.deadline is not None and not 0 < self.deadline[0] <= self.deadline[1] < 1e6:
            rule = "must be two positive numbers, the second not below the first"
            raise Inconsistent([Problem("deadline", rule, list(self.deadline))])
        return self


class OutagesSpec(Spec):
    """Failures of nodes, racks and jobs, with their detection and repair, while jobs run."""

    per_node_day: float | None = Field(default=None, gt=0, le=1000)
    """Failures of a node a day, known at once; times between them are exponential."""
    failures: str | FailureProfile | None = None
    """In place of `per_node_day`: a profile of the catalogue, or one of your own, as in `run.failures`."""
    repair_s: Seconds = 4 * 3600.0
    """Seconds from knowing a failed node until it takes jobs again."""
    manual_share: Share = 0.0
    """Nodes that people have to repair after that."""
    manual_repair_s: Seconds = 172800.0
    """Mean time of a repair by hand."""
    repair_crews: int = Field(default=0, ge=0, le=10**6)
    """Repairs by hand at a time; 0: as many as needed."""
    save_interval_s: Seconds = 3600.0
    """Seconds of work between two checkpoints of a job: what came after the last one is lost."""

    @model_validator(mode="after")
    def _one_rate(self) -> OutagesSpec:
        if (self.per_node_day is None) == (self.failures is None):
            raise ValueError("needs one of `per_node_day` and `failures`")
        return self


class ShiftSpec(Spec):
    """Jobs that wait for cleaner electricity."""

    interruptible: bool = True
    """Jobs run in the cleanest slots; otherwise they start where the mean over their time is least."""
    until: Literal["slack", "deadline", "next_workday", "next_morning"] = "slack"
    """How late a job may end: `slack` after it would end if it started at once; at its own deadline; or, if it would
    end out of working hours, when the next working day begins. `next_morning` is the same but for Friday evenings,
    after which it is Saturday's (as in the code of Wiesner et al. 2021)."""
    slack: Seconds = Field(default=86400.0, ge=0)
    """Seconds by which `until: slack` lets a job end later."""
    work_hours: tuple[float, float] = (9.0, 17.0)
    """Hours of the day, Monday to Friday, on the clock of `jobs.start`."""
    forecast_error: float = Field(default=0.05, ge=0, le=10)
    """Standard deviation of the forecast that jobs are planned by, over the mean."""
    slot: Seconds = Field(default=1800.0, ge=60)
    """Length of the slots that jobs are planned in."""

    @model_validator(mode="after")
    def _hours_of_a_day(self) -> ShiftSpec:
        if not 0 <= self.work_hours[0] < self.work_hours[1] <= 24:
            raise Inconsistent([Problem("work_hours", "must be two rising hours of a day", list(self.work_hours))])
        return self


class DiurnalLoad(Spec):
    """Requests a second that rise and fall with the hour of the day, as a cosine."""

    peak: float = Field(ge=0, le=1e9)
    """At `peak_hour`."""
    trough: float = Field(default=0.0, ge=0, le=1e9)
    """Twelve hours later."""
    peak_hour: float = Field(default=15.0, ge=0, lt=24)
    """On the clock of `jobs.start`; without it the first submission is at hour 0."""

    @model_validator(mode="after")
    def _not_above_peak(self) -> DiurnalLoad:
        if self.trough > self.peak:
            raise Inconsistent([Problem("trough", f"must not be above peak = {self.peak:g}", self.trough)])
        return self


class ServingFleetSpec(Spec):
    """Replicas of one model that answer requests on devices of the cluster, as many as each hour needs."""

    name: str = ""
    """Absent: the scenario's."""
    scenario: str
    """Serving scenario, relative to this one: its traffic and objective, and the replica (one instance of its pool, or
    all pools together where it has several)."""
    load: tuple[float, ...] | str | DiurnalLoad
    """Requests a second: one number for each hour from the first submission on (repeated when it ends), a CSV file with
    the column `requests_per_s`, or a peak and a trough of a day."""
    least: int = Field(default=1, ge=0, le=10**6)
    """Replicas that are always wanted."""
    most: Count | None = None
    """Replicas that are never exceeded. Absent: as many as the empty room holds."""
    priority: int = Field(default=100, ge=-1000, le=1000)
    """Against that of jobs: those of the same or a lower one give way."""
    start_up: Seconds | None = None
    """Seconds from getting devices until a replica answers. Absent: its weights over the storage's rate, and the
    engine's start."""

    @model_validator(mode="after")
    def _in_order(self) -> ServingFleetSpec:
        wrong = []
        if self.most is not None and self.least > self.most:
            wrong.append(Problem("least", f"must not be above most = {self.most}", self.least))
        if isinstance(self.load, tuple):
            if not self.load:
                wrong.append(Problem("load", "must have a number for one hour at least", []))
            beyond = [value for value in self.load if not 0 <= value <= 1e9]
            rule = "must be from 0 to 1e9 requests a second in every hour"
            wrong += [Problem("load", rule, value) for value in beyond[:1]]
        if wrong:
            raise Inconsistent(wrong)
        return self


class PowerSpec(Spec):
    """Rows of nodes that share a feed each, which may carry less than all of them at once.

    Above the thresholds clocks are locked, low priority first, and above the limit a brake slows the whole row. As in
    POLCA (Patel et al. 2024, arXiv 2308.12908, sections 5 and 6), whose numbers the defaults are.
    """

    nodes_per_row: Count | None = None
    """Absent: all nodes are one row. The last row has what is left."""
    limit: Watts | None = Field(default=None, gt=0)
    """What one row's feed carries."""
    oversubscribed: float | None = Field(default=None, ge=0, le=10)
    """In place of `limit`: share of nodes that each row has more than its feed carries at their design power."""
    beside_devices: Watts = Field(default=0.0, ge=0, le=1e6)
    """Watts of a node next to its devices (processors, memory, fans) while these draw their design power."""
    beside_constant: Share = 0.5
    """Share of them that is drawn always; the rest is in proportion to what the devices draw."""
    high_priority: int = Field(default=1, ge=-1000, le=1000)
    """Jobs and fleets of this priority or a higher one are of high priority, the others of low."""
    caps: bool = True
    """Whether clocks are locked at the thresholds; the brake is there anyway."""
    first: float = Field(default=0.80, gt=0, le=1)
    """Share of the limit above which low priority is locked to `first_clock`."""
    second: float = Field(default=0.89, gt=0, le=1)
    """Share above which low priority is locked to `second_clock`, and, if that has not helped, high priority to
    `first_clock`."""
    release: float = Field(default=0.05, gt=0, le=0.5)
    """How far below its threshold a row has to fall before a lock is taken back."""
    first_clock: float = Field(default=0.904, ge=0.3, le=1)
    """Of the highest clock: 1,275 of 1,410 MHz."""
    second_clock: float = Field(default=0.787, ge=0.3, le=1)
    """1,110 of 1,410 MHz."""
    brake_clock: float = Field(default=0.3, ge=0.3, le=1)
    """The least that is modelled; POLCA's brake goes to 0.2."""
    delay: Seconds = Field(default=40.0, ge=1, le=86400)
    """Until a lock or its release acts, out of interval; one command a row at a time."""
    brake_after: Seconds = Field(default=5.0, ge=0, le=86400)
    """From the limit being passed to the brake."""

    @model_validator(mode="after")
    def _in_order(self) -> PowerSpec:
        if (self.limit is None) == (self.oversubscribed is None):
            raise ValueError("needs one of `limit` and `oversubscribed`")
        wrong = []
        if self.second < self.first:
            wrong.append(Problem("second", f"must not be below first = {self.first:g}", self.second))
        if self.release >= self.first:
            wrong.append(Problem("release", f"must be below first = {self.first:g}", self.release))
        clocks = {"second_clock": self.first_clock, "brake_clock": self.second_clock}
        for name, above in clocks.items():
            if getattr(self, name) > above:
                wrong.append(Problem(name, f"must not be above the clock before it, {above:g}", getattr(self, name)))
        if wrong:
            raise Inconsistent(wrong)
        return self

    @property
    def clocks(self) -> tuple[float, float, float, float]:
        """None locked, first, second, brake."""
        return 1.0, self.first_clock, self.second_clock, self.brake_clock


class JobsSpec(Spec):
    """What `windtunnel cluster` simulates."""

    trace: str | None = None
    """File of jobs in the order of their submission, relative to the scenario."""
    format: str = "csv"
    """How the trace is written; `windtunnel cluster` names those that it reads."""
    time_unit_s: Seconds = Field(default=1.0, gt=0)
    """Seconds of one unit of time in the trace."""
    generate: GenerateSpec | None = None
    """Random jobs, in place of a trace."""
    throughputs: str | None = None
    """CSV file with `worker_type`, `job_type`, `gpus` and `steps_per_s`: how fast jobs run on each kind of device."""
    applications: str | None = None
    """Folder with measured profiles of the applications of a trace of format `pollux` (`step_time_NAME.csv`,
    `efficiency_NAME.csv`, `scalability_NAME.csv`)."""
    nodes: str | None = None
    """CSV file of nodes (`count`, `cpu_milli`, `memory_mib`, `gpus`, `gpu_model`) for policies that place pods
    (`fgd`, `bestfit`, `dotprod`, `random`), in place of `cluster`."""
    fill: float = Field(default=1.3, gt=0, le=10)
    """GPUs that pods ask for, over all GPUs: pods are drawn from the trace until they do. None leaves."""
    serving: tuple[ServingFleetSpec, ...] = ()
    """Serving next to the jobs, with policy `priority`."""
    policy: Named = "fifo"
    """Who is next: an id, or `{id: {knob: value}}`."""
    placement: Named = "consolidated"
    """consolidated: on as few nodes as can hold the job, and it waits for them; best_fit: on the fewest nodes that have
    room now; spread: one device after the other on the node with most idle ones; delay: consolidated, but a job that
    has waited for `wait_s` (600) takes the fewest nodes that have room: `{delay: {wait_s: 1800}}`."""
    start_overhead_s: Seconds | None = None
    """Seconds without progress after each start of a job (image, weights, data). Absent: 0, or what the format says."""
    overhead_at: Literal["starts", "decisions"] | None = None
    """When the overhead is lost: at the starts of a job, or by all that run at each arrival and end (schedulers that
    place everything anew). Absent: starts, or what the format says."""
    spread_speed: float = Field(default=1.0, gt=0, le=1)
    """Speed of a job on more nodes than it needs, as a share of its speed on the fewest."""
    round_s: Seconds | None = Field(default=None, ge=0.1)
    """Seconds of a round of policies that decide in rounds. Absent: 360, and queue policies decide at each arrival and
    end; with it they decide once a round."""
    outages: OutagesSpec | None = None
    """Absent: nothing fails."""
    preempted_jobs: Literal["save", "lose"] = "save"
    """Whether a job that has to give way saves first, or goes back to its last checkpoint
    (`outages.save_interval_s`)."""
    guaranteed_run: Seconds = Field(default=0.0, ge=0)
    """Seconds from its start in which nobody preempts a job (Slurm's `PreemptExemptTime`); failures stop it anyway."""
    job_watts_per_device: Watts | None = None
    """Watts of a device that runs a job. Absent: the trace's own, or the device's design power."""
    idle_watts_per_device: Watts | None = None
    """Watts of a device without a job. Absent: the device's, as the catalogue has it."""
    power: PowerSpec | None = None
    """Feeds of rows of nodes, with caps. Absent: none; watts are only counted."""
    pue: float = Field(default=1.0, ge=1, le=5)
    """Power of the whole room over that of its devices."""
    grid: str | GridSpec | None = None
    """Where electricity comes from, as in `run.grid`; absent: no carbon."""
    start: datetime | None = None
    """Moment of the first submission; read for the hours of `grid`. Absent: the grid's mean holds."""
    shift: ShiftSpec | None = None
    """Jobs wait for cleaner hours (needs `grid` and `start`). Absent: none does."""
    price_per_device_hour: float | None = Field(default=None, ge=0)
    """US dollars of a device for an hour. Absent: the cluster's, as the catalogue has it."""
    seed: int = Field(default=1, ge=0)
    """Seed of all draws."""

    @model_validator(mode="before")
    @classmethod
    def _one_grid(cls, data: Any) -> Any:
        if isinstance(data, dict) and "carbon_g_per_kwh" in data:
            raise ValueError("has `carbon_g_per_kwh`, which is now `grid: {g_co2_per_kwh: …}`, as in `run`")
        return data

    @model_validator(mode="after")
    def _one_source(self) -> JobsSpec:
        if self.shift is not None and (self.grid is None or self.start is None):
            raise Inconsistent([Problem("shift", "needs `grid` and `start`: which hours are clean")])
        if (self.trace is None) == (self.generate is None):
            rule = "is required, or `generate` in its place" if self.trace is None else "is given with `generate`"
            raise Inconsistent([Problem("trace", rule)])
        rule = "must be one id, or one id with its knobs"
        given = {"policy": self.policy, "placement": self.placement}
        wrong = {name: list(own) for name, own in given.items() if isinstance(own, dict) and len(own) != 1}
        if wrong:
            raise Inconsistent([Problem(name, rule, own) for name, own in wrong.items()])
        return self
