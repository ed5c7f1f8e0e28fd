"""The loop of elastic jobs that choose their batch for their devices; measured profiles say how fast they get on.

A policy decides every period and sees goodputs by the fitted model on the fewest nodes; what a job does on the nodes
that it got is read from its application's measurements. Jobs of several nodes do not slow each other down.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.applications import Application
from windtunnel.clusters.elastic_policies.base import ElasticPolicy, Running
from windtunnel.clusters.event_loop.run import Course, stretches
from windtunnel.clusters.goodput import Candidates, Choice, candidates, goodputs
from windtunnel.clusters.jobs import LOWER
from windtunnel.progress import counting

MOST_LEVELS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobs:
    """Jobs whose devices and batches are chosen while they run."""

    submit_s: Floats
    applications: tuple[Application, ...]
    """Of each job."""
    deadline_s: Floats
    overhead_s: Floats
    """Of a change of a job's devices."""
    capacity: Ints
    """Devices of each node."""


@dataclass(slots=True)
class _Job:
    """One job's state."""

    application: Application
    noise: float
    """φ as measured last."""
    progress: float = 0.0
    epoch: int = 0
    held: Ints | None = None
    """Devices on each node; None: none."""
    since: float = 0.0
    ready: float = 0.0
    """When its last change is over."""
    choice: Choice = field(default_factory=lambda: Choice(0.0, 1, 1))
    first: float = np.nan
    end: float = np.nan
    run_s: float = 0.0
    placed: int = 0
    starts: int = 0

    @property
    def layout(self) -> tuple[int, ...]:
        """Devices of each node that it is on."""
        return () if self.held is None else tuple(self.held[self.held > 0].tolist())


def level_sizes(capacity: Ints) -> Ints:
    """Numbers of devices that jobs may have: all of them in a small room; a node's and whole nodes in a large one."""
    total, node = int(capacity.sum()), int(capacity.max())
    if total <= MOST_LEVELS:
        return np.arange(1, total + 1)
    whole = node * np.unique(np.geomspace(1, max(total // node, 1), MOST_LEVELS).astype(np.int64))
    return np.unique(np.concatenate([np.arange(1, node + 1), whole]))


def place(free: Ints, count: int) -> Ints:
    """Devices on each node: emptiest nodes first while a whole one is needed, the rest where it fits best.

    Args:
        free: devices of each node; at least `count` in all.
        count: devices of the job.
    """
    left, held = free.copy(), np.zeros(len(free), np.int64)
    while count > 0:
        fits = np.flatnonzero(left >= count)
        node = int(fits[left[fits].argmin()]) if len(fits) else int(left.argmax())
        taken = min(int(left[node]), count)
        held[node] += taken
        left[node] -= taken
        count -= taken
    return held


def run_batches(jobs: BatchJobs, policy: ElasticPolicy, period_s: float) -> Course:
    """Simulate all jobs; decisions are at multiples of the period."""
    run = _Run(jobs, period_s)
    allocate = policy.start()
    n, arrived, events = len(jobs.submit_s), 0, 0
    active: list[int] = []
    tick = int(np.ceil(jobs.submit_s[0] / period_s))
    ended = lambda: (float(sum(np.isfinite(job.end) for job in run.jobs)), float(n))  # noqa: E731
    with counting("jobs", ended, LOWER) as pace:
        while arrived < n or active:
            pace.check()
            if not active:
                tick = max(tick, int(np.ceil(jobs.submit_s[arrived] / period_s)))
            now = tick * period_s
            until = int(np.searchsorted(jobs.submit_s, now, side="right"))
            active, arrived = [*active, *range(arrived, until)], until
            run.change(active, allocate(run.view(active, now)), now)
            for j in active:
                run.advance(j, now, now + period_s)
            active = [j for j in active if np.isnan(run.jobs[j].end)]
            tick += 1
            events += 1
    return run.course(events)


class _Run:
    """All jobs, and the devices that they hold."""

    def __init__(self, jobs: BatchJobs, period_s: float) -> None:
        self.spec, self.period_s = jobs, period_s
        self.sizes = level_sizes(jobs.capacity)
        self.jobs = [_Job(own, own.noise(own.limits.first, 0)) for own in jobs.applications]
        self.rows: list[tuple[int, float, float, int, int]] = []
        self.held: list[int] = []
        self.nodes = _fewest_nodes(self.sizes, jobs.capacity)
        self.by_level: dict[str, Candidates] = {}

    def view(self, active: list[int], now: float) -> Running:
        """What the policy sees."""
        jobs = [self.jobs[j] for j in active]
        placed = np.array([job.placed for job in jobs], np.float64)
        sizes = [sum(job.layout) for job in jobs]
        level = np.array([int(np.searchsorted(self.sizes, size)) if size else -1 for size in sizes], np.int64)
        return Running(
            jobs=np.array(active, np.int64),
            sizes=self.sizes,
            rate=np.array([self._rates(job) for job in jobs]),
            left_s=np.array([job.application.ends[-1] - job.progress for job in jobs]),
            due_s=self.spec.deadline_s[active] - now,
            devices=int(self.spec.capacity.sum()),
            slot_s=self.period_s,
            level=level,
            age_s=now - self.spec.submit_s[active],
            restarts=np.maximum(placed - 1, 0),
            overhead_s=self.spec.overhead_s[active],
        )

    def _rates(self, job: _Job) -> Floats:
        """Goodput at each level on the fewest nodes; at the present one on its own nodes."""
        own = job.application
        if own.name not in self.by_level:
            self.by_level[own.name] = candidates(own.chooser.model, own.limits, self.nodes, self.sizes)
        rate: Floats = goodputs(self.by_level[own.name], job.noise, own.limits.first).max(axis=0)
        if job.held is not None:
            layout = job.layout
            at = int(np.searchsorted(self.sizes, sum(layout)))
            rate[at] = own.chooser.best(job.noise, len(layout), sum(layout)).rate
        return rate

    def change(self, active: list[int], levels: Ints, now: float) -> None:
        """Give devices; those whose number does not change keep them."""
        wanted = {j: int(self.sizes[at]) if at >= 0 else 0 for j, at in zip(active, levels.tolist(), strict=True)}
        changed = [j for j in active if wanted[j] != sum(self.jobs[j].layout)]
        for j in changed:
            self._stop(j, now)
        kept = [held for j in active if (held := self.jobs[j].held) is not None]
        free = self.spec.capacity - np.sum([np.zeros_like(self.spec.capacity), *kept], axis=0)
        for j in sorted(changed, key=lambda j: -wanted[j]):
            if wanted[j]:
                held = place(free, wanted[j])
                free = free - held
                self._start(j, held, now)

    def _stop(self, j: int, now: float) -> None:
        job = self.jobs[j]
        if job.held is not None:
            at = np.flatnonzero(job.held)
            self.rows.append((j, job.since, now, int(at[0]), len(at)))
            self.held.append(int(job.held.sum()))
            job.run_s += now - job.since
        job.held = None

    def _start(self, j: int, held: Ints, now: float) -> None:
        job = self.jobs[j]
        job.held, job.since, job.ready = held, now, now + float(self.spec.overhead_s[j])
        job.first = now if np.isnan(job.first) else job.first
        job.placed += 1
        self._choose(job)

    def _choose(self, job: _Job) -> None:
        layout = job.layout
        job.choice = job.application.chooser.best(job.noise, len(layout), sum(layout))

    def advance(self, j: int, now: float, until: float) -> None:
        """Let a job run over a period; noise is measured, and the batch chosen anew, at its end and at epochs."""
        job = self.jobs[j]
        own, layout = job.application, job.layout
        at = max(now, job.ready)
        while layout and at < until and np.isnan(job.end):
            pace = own.rate(layout, job.choice.local, job.choice.passes, job.epoch)
            job.noise = own.noise(job.choice.local * job.choice.passes * sum(layout), job.epoch)
            needed = (own.ends[job.epoch] - job.progress) / pace
            if at + needed > until:
                job.progress += pace * (until - at)
                at = until
            else:
                at += needed
                job.progress, job.epoch = float(own.ends[job.epoch]), job.epoch + 1
                job.end = at if job.epoch == len(own.ends) else np.nan
            self._choose(job)
        if np.isfinite(job.end):
            self._stop(j, job.end)

    def course(self, events: int) -> Course:
        """What happened."""
        order = sorted(range(len(self.rows)), key=lambda i: (self.rows[i][1], self.rows[i][0]))
        end = np.array([job.end for job in self.jobs])
        return Course(
            first_start_s=np.array([job.first for job in self.jobs]),
            end_s=end,
            run_s=np.array([job.run_s for job in self.jobs]),
            starts=np.array([job.placed for job in self.jobs], np.int64),
            kills=np.zeros(len(end), np.int64),
            segments=stretches([self.rows[i] for i in order], end),
            events=events,
            held=np.array([self.held[i] for i in order], np.float64),
        )


def _fewest_nodes(sizes: Ints, capacity: Ints) -> Ints:
    """Nodes that can hold each number of devices when all are free."""
    largest = np.cumsum(np.sort(capacity)[::-1])
    return np.searchsorted(largest, sizes) + 1
