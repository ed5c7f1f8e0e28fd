"""The loop of policies under which jobs share devices: who runs where, how fast, and until when."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.clusters.event_loop.records import JobTable
from windtunnel.clusters.event_loop.run import Course, stretches
from windtunnel.clusters.jobs import LOWER
from windtunnel.clusters.sharing_policies.base import Decide, Floor, Nodes, Placed, Present
from windtunnel.progress import counting


@dataclass(slots=True)
class _Life:
    """What happened to a job."""

    first: float = math.nan
    end: float = math.nan
    run_s: float = 0.0
    starts: int = 0
    since: float = 0.0
    """Start of the stretch of running that it is in."""
    ready: float = 0.0
    """When its overhead is over."""
    updated: float = 0.0


@dataclass(slots=True)
class _Loop:
    jobs: JobTable
    capacity: tuple[int, ...]
    decide: Decide
    tick_s: float
    restarts: bool
    """Whether every decision starts all jobs anew."""
    lives: list[_Life]
    present: list[Present] = field(default_factory=list)
    rows: list[tuple[int, float, float, int, int, float]] = field(default_factory=list)

    def run(self) -> int:
        """Run until all jobs have ended; the number of events."""
        arrived, ended, now, events, n = 0, 0, 0.0, 0, len(self.jobs.submit_s)
        pending = False
        with counting("jobs", lambda: (float(ended), float(n)), LOWER) as pace:
            while arrived < n or self.present:
                pace.check()
                times = [self._until(job, job.on.look_at_s) for job in self.present if job.on is not None]
                if arrived < n:
                    times.append(float(self.jobs.submit_s[arrived]))
                if pending:
                    times.append(self._tick(now) + self.tick_s)
                if not times:  # nobody is let run, and nobody comes
                    return events
                now = max(now, min(times))
                events += 1
                for job in [job for job in self.present if job.on is not None and self._finish(job) <= now]:
                    self._advance(job, now)
                    self._close(job, now)
                    self.lives[job.number].end, job.left_s, job.on = now, 0.0, None
                    self.present.remove(job)
                    ended, pending = ended + 1, True
                while arrived < n and self.jobs.submit_s[arrived] <= now:
                    work, devices = float(self.jobs.work_s[arrived]), int(self.jobs.devices[arrived])
                    self.present.append(Present(arrived, devices, work))
                    arrived, pending = arrived + 1, True
                if self.tick_s <= 0 or now <= self._tick(now):
                    self._apply(now)
                    pending = self.tick_s > 0 and bool(self.present)
        return events

    def _tick(self, now: float) -> float:
        return math.floor(now / self.tick_s + 1e-9) * self.tick_s

    def _finish(self, job: Present) -> float:
        return self._until(job, 0.0)

    def _until(self, job: Present, left_s: float) -> float:
        """When a running job has that much work left."""
        assert job.on is not None
        if job.on.speed <= 0:
            return math.inf
        life = self.lives[job.number]
        return max(life.updated, life.ready) + (job.left_s - left_s) / job.on.speed

    def _advance(self, job: Present, now: float) -> None:
        life = self.lives[job.number]
        if job.on is not None:
            worked = max(now - max(life.updated, life.ready), 0.0) * job.on.speed
            job.left_s = max(job.left_s - worked, 0.0)
            job.held_s += now - life.updated
            life.run_s += now - life.updated
        life.updated = now

    def _close(self, job: Present, now: float) -> None:
        """Note the stretch of running that ends."""
        on, life = job.on, self.lives[job.number]
        if on is not None and now > life.since:
            devices = sum(uses for _, uses in on.nodes) * on.share
            self.rows.append((job.number, life.since, now, on.nodes[0][0], len(on.nodes), devices))
        life.since = now

    def _apply(self, now: float) -> None:
        for job in self.present:
            self._advance(job, now)
        placed = self.decide(Floor(now, self.capacity, self.present))
        for job in self.present:
            before, after, life = job.on, placed.get(job.number), self.lives[job.number]
            same = before is not None and after is not None and _alike(before, after)
            if before is not None and not (same and after is not None and before.share == after.share):
                self._close(job, now)
            life.since = life.since if same else now
            job.on = after
            if after is None or (same and not self.restarts):
                continue
            if not same:
                life.first = now if life.starts == 0 else life.first
                life.starts += 1
            own = float(self.jobs.overhead_s[job.number]) if after.overhead_s is None else after.overhead_s
            life.ready = now + own


def _alike(before: Placed, after: Placed) -> bool:
    """Whether a job goes on as it is, though perhaps at another speed."""
    return _sorted(before.nodes) == _sorted(after.nodes) and before.group == after.group


def _sorted(nodes: Nodes) -> Nodes:
    return tuple(sorted(nodes))


def run_sharing(jobs: JobTable, capacity: Ints, decide: Decide, *, tick_s: float, restarts: bool) -> Course:
    """Simulate all jobs.

    Args:
        jobs: in the order of submission.
        capacity: devices of each node.
        decide: the policy.
        tick_s: seconds between two decisions; 0: at every arrival and end.
        restarts: whether every decision costs all jobs their overhead.
    """
    lives = [_Life() for _ in jobs.submit_s]
    loop = _Loop(jobs, tuple(int(c) for c in capacity), decide, tick_s, restarts, lives)
    events = loop.run()
    rows = sorted(loop.rows, key=lambda row: (row[1], row[0]))
    end_s = np.array([life.end for life in lives])
    return Course(
        first_start_s=np.array([life.first for life in lives]),
        end_s=end_s,
        run_s=np.array([life.run_s for life in lives]),
        starts=np.array([life.starts for life in lives]),
        kills=np.zeros(len(lives), np.int64),
        segments=stretches([row[:5] for row in rows], end_s),
        events=events,
        held=np.array([row[5] for row in rows]),
    )
