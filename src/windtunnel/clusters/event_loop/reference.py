"""The loop of `queue_kernel.py` in plain Python: every queue is sorted anew, every sum taken from the start.

Tests hold the kernel equal to it bit for bit. It also runs policies that are written in Python (`Chooser`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from windtunnel.clusters.event_loop.job_twin import Nodes, TwinJob
from windtunnel.clusters.event_loop.placement_twin import add_devices, place
from windtunnel.clusters.event_loop.power_records import FULL, NO_FEEDS, Feeds
from windtunnel.clusters.event_loop.power_twin import PowerTwin
from windtunnel.clusters.event_loop.records import (
    ATTAINED,
    BREAKS,
    CLAIM,
    CRASHES,
    DRAINS,
    EASY,
    ENDED_WELL,
    FAILED,
    FAILS,
    NEVER,
    NO_CAUSES,
    PAUSE,
    PAUSED,
    PREEMPTED,
    RANKED,
    RELEASE,
    REMAINING,
    REMAINING_DEVICES,
    REQUEUES,
    RESTARTS,
    SOUND,
    STRICT,
    WAITS,
    WITHDRAW,
    Causes,
    JobTable,
    Outages,
    Rules,
    all_told,
    filled,
)
from windtunnel.splitmix64.plain import SplitMix64

SLACK = 1e-3
Chooser = Callable[["Twin"], Iterable[TwinJob]]
"""Gives waiting jobs in the order in which they may start; what it gives next may follow from what has started."""


class Twin:
    """One run."""

    def __init__(
        self,
        jobs: JobTable,
        rules: Rules,
        outages: Outages,
        capacity: Iterable[int],
        choose: Chooser | None = None,
        causes: Causes = NO_CAUSES,
        feeds: Feeds = NO_FEEDS,
    ) -> None:
        self.table, self.rules, self.outages = filled(jobs, rules), rules, all_told(outages)
        self.choose, self.causes = choose, causes
        self.capacity = [int(c) for c in capacity]
        self.free = list(self.capacity)
        self.jobs = [
            TwinJob(i, int(d), float(w)) for i, (d, w) in enumerate(zip(jobs.devices, jobs.work_s, strict=True))
        ]
        self.waiting: list[TwinJob] = []
        self.running: list[TwinJob] = []
        self.line: list[TwinJob] = []
        """All jobs on the cluster, in the order of the queues of their levels (ATTAINED)."""
        self.segments: list[tuple[int, float, float, int, int, int, float]] = []
        self.ahead: set[int] = set(range(len(self.jobs)))
        """Jobs that have not come yet or are put aside."""
        self.broken: set[int] = set()
        self.slowed = [1.0] * len(self.capacity)
        self.ended = 0
        self.events = 0
        self.power = PowerTwin(feeds)

    def run(self) -> None:
        """Run until all jobs have ended."""
        arrived, changed, now = 0, 0, 0.0
        out = self.outages
        while self.ended < len(self.jobs):
            times = [job.finish for job in self.running]
            if arrived < len(self.jobs):
                times.append(float(self.table.submit_s[arrived]))
            if changed < len(out.time_s):
                times.append(float(out.time_s[changed]))
            times += self._relaxes(now)
            tick = self.rules.tick_s
            if self.waiting or self.rules.repack:
                times += [self._tick(now, 1.0)] if tick > 0 else []
                times += self._crossings(now) if self.rules.kind == ATTAINED and tick <= 0 else []
                times += self._guarantees(now)
            if not times or min(times) >= NEVER:
                return
            self.events += 1
            wakes = self.power.next_wake(now)
            now = max(min(times), now)
            if wakes < now:
                now = wakes
                self.power.act(now)
                self.power.read(now, self.running)
                continue
            for job in [job for job in self._in_order() if job.finish <= now]:
                self._finish(job, now)
            while changed < len(out.time_s) and out.time_s[changed] <= now:
                self._befall(changed, now)
                changed += 1
            while arrived < len(self.jobs) and self.table.submit_s[arrived] <= now:
                if not self.table.held[arrived]:
                    self._join(self.jobs[arrived], now)
                arrived += 1
            if tick <= 0 or now <= self._tick(now, 0.0):
                if self.rules.preemptive and (self.waiting or self.rules.repack):
                    self._decide_preemptive(now)
                elif self.waiting:
                    self._decide_queue(now)
            self.power.act(now)
            self.power.read(now, self.running)

    def _tick(self, now: float, after: float) -> float:
        """The last moment of decision, or one after it."""
        return (math.floor(now / self.rules.tick_s + 1e-9) + after) * self.rules.tick_s

    def key(self, job: TwinJob, now: float) -> tuple[float, int]:
        """What orders a job; those that tie go by their number."""
        kind, runs = self.rules.kind, job in self.running
        left = job.left(now) if runs else job.remaining
        if kind == REMAINING:
            return left, job.number
        if kind == REMAINING_DEVICES:
            return left * job.devices, job.number
        if kind == ATTAINED:
            return float(job.level), self.line.index(job)
        if kind == RANKED:
            rank, first = float(self.table.key[job.number]), float(self.table.submit_s[0])
            own = job.started - first if runs else WAITS + (float(self.table.submit_s[job.number]) - first)
            return rank + own, job.number
        return float(self.table.key[job.number]), job.number

    def _fall(self, now: float) -> None:
        """Running jobs that have received a level's device-seconds go to the end of the next level's queue."""
        for job in [job for job in self.line if job in self.running]:
            level = self._level(self._attained(job, now))
            if level > job.level:
                job.level = level
                self.line.remove(job)
                self.line.append(job)

    def _attained(self, job: TwinJob, now: float) -> float:
        return job.attained + (now - job.started) * job.devices if job in self.running else job.attained

    def _level(self, attained: float) -> int:
        return sum(1 for limit in self.rules.limits if attained + SLACK >= limit)

    def _crossings(self, now: float) -> Iterator[float]:
        for job in self.running:
            attained = self._attained(job, now)
            above = [float(limit) for limit in self.rules.limits if attained + SLACK < limit]
            if above:
                yield now + (above[0] - attained) / job.devices

    def _guarantees(self, now: float) -> list[float]:
        """When running jobs may be preempted."""
        if self.rules.tick_s > 0 or self.rules.guaranteed_s <= 0 or not self.rules.preemptive:
            return []
        ends = [job.started + self.rules.guaranteed_s for job in self.running]
        return [end for end in ends if end > now]

    def _relaxes(self, now: float) -> list[float]:
        """When waiting jobs take nodes by the relaxed placement."""
        if self.rules.tick_s > 0 or self.rules.relax_s >= NEVER:
            return []
        moments = [job.queued + self.rules.relax_s for job in self.waiting]
        return [moment for moment in moments if moment > now]

    # -- nodes

    def placement(self, job: TwinJob, now: float) -> int:
        """The placement that is good enough for a waiting job."""
        return self.rules.relaxed if now >= job.queued + self.rules.relax_s else self.rules.placement

    def place(self, devices: int, room: list[int], kind: int | None = None) -> Nodes:
        """Nodes for a job, none where there is no room; `kind` of placement: that of the rules."""
        return place(self.rules.placement if kind is None else kind, devices, room, self.capacity)

    def _take(self, job: TwinJob, nodes: Nodes) -> None:
        fewest = -(-job.devices // max(1, *self.capacity))
        speed = 1.0 if len(nodes) <= fewest else float(self.table.spread_speed[job.number])
        job.on, job.speed = nodes, speed / max(self.slowed[n] for n, _ in nodes)
        job.clock_speed, job.lock = 1.0, FULL

    def _set_finish(self, job: TwinJob, now: float) -> None:
        job.ready = now + float(self.table.overhead_s[job.number])
        job.locked = now
        if any(n in self.broken for n, _ in job.on):
            job.ready = NEVER
        if job.fails_at <= now:
            self._draw_failure(job, now)
        job.set_end()

    def _start(self, job: TwinJob, now: float, nodes: Nodes) -> None:
        self._take(job, nodes)
        job.started = now
        job.first_start = now if job.starts == 0 else job.first_start
        job.starts += 1
        job.lost, job.fails_at = 0.0, now
        self._set_finish(job, now)

    def _stop(self, job: TwinJob, now: float, why: int, saves: bool) -> None:
        job.note_held_back(now)
        if saves:
            left = job.left(now)
        else:
            job.roll_back(now, float(self.table.save_s[job.number]))
            left = job.remaining
        job.attained += (now - job.started) * job.devices
        job.run_s += now - job.started
        job.remaining = left
        self.segments.append((job.number, job.started, now, job.on[0][0], len(job.on), why, job.lost))

    def _join(self, job: TwinJob, now: float) -> None:
        job.queued = now
        self.ahead.discard(job.number)
        self.waiting.append(job)
        self.line.append(job)

    def _in_order(self) -> list[TwinJob]:
        """Jobs that run, last ones first: in the order of the last decision, or of when they are expected to end."""
        order = list(self.running)
        if not self.rules.preemptive:
            order.sort(key=lambda job: (job.expected_end, job.number))
        return order[::-1]

    def _leave(self, job: TwinJob, now: float, why: int, saves: bool = True) -> None:
        """Stop a job that runs; it waits anew, unless it has ended or was put aside."""
        add_devices(self.free, job.on, 1)
        self._stop(job, now, why, saves)
        self.running.remove(job)
        self.line.remove(job)
        job.kills += why == FAILED
        if why == ENDED_WELL:
            job.end, job.remaining = now, 0.0
            self.ended += 1
        elif why == PAUSED:
            self.ahead.add(job.number)
        else:
            self._join(job, now)

    # -- failures, and what else comes from outside

    def _finish(self, job: TwinJob, now: float) -> None:
        """A job ends, or a failure of its own takes its course."""
        if job.fate == FAILS:
            share = self.causes.share
            drawn = self._stream(job).uniform()
            self._fail(job, now, min(int((drawn >= share).sum()), len(share) - 1))
        if job.finish > now:
            return
        if job.fate == RESTARTS:
            self._set_finish(job, now)
        elif job.fate == SOUND:
            self._leave(job, now, ENDED_WELL)
        else:
            self._leave(job, now, FAILED, job.fate == DRAINS)

    def _stream(self, job: TwinJob) -> SplitMix64:
        own = self.causes.seed * 0xD1342543DE82EF95 + (job.number + 1) * 0xA24BAED4963EE407
        job.draws += 1
        return SplitMix64((own + (job.draws - 1) * 0x9FB21C651E98DF25) % 2**64)

    def _draw_failure(self, job: TwinJob, now: float) -> None:
        job.fails_at = NEVER
        if self.causes.per_job_s > 0:
            job.fails_at = now + self._stream(job).exponential() / self.causes.per_job_s

    def _hang(self, job: TwinJob, now: float) -> None:
        job.note_held_back(now)
        job.roll_back(now, float(self.table.save_s[job.number]))
        job.ready = NEVER
        job.set_end()

    def _fail(self, job: TwinJob, now: float, cause: int) -> None:
        if job.ready >= NEVER:
            return
        causes = self.causes
        known = now + float(causes.known_s[cause])
        if causes.slow[cause] > 1 or causes.drains[cause]:
            job.fate, job.fails_at = SOUND, NEVER
            job.slow_down(now, float(causes.slow[cause]))
            if known < job.finish:
                job.finish, job.fate = known, DRAINS
            return
        self._hang(job, now)
        job.finish, job.fails_at = known, now
        job.fate = RESTARTS if causes.in_place[cause] else REQUEUES

    def _befall(self, row: int, now: float) -> None:
        out = self.outages
        node, kind, cause = int(out.node[row]), int(out.kind[row]), int(out.cause[row])
        if kind == BREAKS:
            self._break(node, cause, now)
        elif kind == CRASHES:
            passed = 0
            for job in sorted(self.running, key=lambda job: job.number):
                passed += job.devices_on(node)
                if out.capacity[row] < passed:
                    self._fail(job, now, cause)
                    return
        elif kind in (PAUSE, WITHDRAW):
            for job in [job for job in self.running if job.number == node]:
                self._leave(job, now, PAUSED)
            for job in [job for job in self.waiting if job.number == node and kind == WITHDRAW]:
                self.waiting.remove(job)
                self.line.remove(job)
                self.ahead.add(node)
        elif kind == RELEASE:
            if node in self.ahead:
                self._join(self.jobs[node], now)
        else:
            saves = cause >= 0 and bool(self.causes.drains[cause] or self.causes.slow[cause] > 1)
            self._change(node, int(out.capacity[row]), kind, saves, now)

    def _break(self, node: int, cause: int, now: float) -> None:
        slow = float(self.causes.slow[cause])
        if slow > 1:
            self.slowed[node] = slow
        else:
            self.broken.add(node)
        for job in [job for job in self.running if job.devices_on(node)]:
            if slow > 1:
                job.slow_down(now, slow)
            elif job.ready < NEVER:
                self._hang(job, now)

    def _change(self, node: int, capacity: int, kind: int, saves: bool, now: float) -> None:
        fell = capacity < self.capacity[node]
        self.free[node] += capacity - self.capacity[node]
        self.capacity[node] = capacity
        if kind != CLAIM:
            self.broken.discard(node)
            self.slowed[node] = 1.0
            for job in [job for job in self._in_order() if fell and job.devices_on(node)]:
                self._leave(job, now, FAILED, saves)
        while kind == CLAIM and self.free[node] < 0:
            there = [job for job in self.running if job.devices_on(node)]
            last = max(there, key=lambda job: (job.started, job.number))
            self._leave(last, now, PREEMPTED, self.rules.preempted_save)

    # -- decisions

    def start_waiting(self, job: TwinJob, now: float, nodes: Nodes) -> None:
        """Start a job that waits, on nodes that are idle."""
        self._start(job, now, nodes)
        add_devices(self.free, nodes, -1)
        ready = now + float(self.table.overhead_s[job.number])
        job.expected_end = ready + float(self.table.estimate_s[job.number]) / job.speed
        self.waiting.remove(job)
        self.running.append(job)

    def _decide_queue(self, now: float) -> None:
        if self.choose is not None:
            for job in self.choose(self):
                nodes = self.place(job.devices, self.free, self.placement(job, now))
                if nodes:
                    self.start_waiting(job, now, nodes)
            return
        order = sorted(self.waiting, key=lambda job: self.key(job, now))
        for at, job in enumerate(order):
            nodes = self.place(job.devices, self.free, self.placement(job, now))
            if nodes:
                self.start_waiting(job, now, nodes)
            elif self.rules.blocking == STRICT:
                return
            elif self.rules.blocking == EASY:
                self._backfill(job, order[at + 1 : at + 1 + self.rules.depth], now)
                return

    def _backfill(self, head: TwinJob, behind: list[TwinJob], now: float) -> None:
        reserved, beside = self._reserve(head, now)
        for job in behind:
            overhead, told = float(self.table.overhead_s[job.number]), float(self.table.estimate_s[job.number])
            ends = now + overhead + told / float(self.table.spread_speed[job.number])
            sooner = ends <= reserved
            room = self.free if sooner else [min(a, b) for a, b in zip(self.free, beside, strict=True)]
            nodes = self.place(job.devices, room, self.placement(job, now))
            if nodes:
                self.start_waiting(job, now, nodes)
                if not sooner:
                    add_devices(beside, nodes, -1)

    def _reserve(self, head: TwinJob, now: float) -> tuple[float, list[int]]:
        room = list(self.free)
        ends = {max(job.expected_end, now) for job in self.running}
        relaxes = head.queued + self.rules.relax_s
        ends |= {relaxes} if now < relaxes < NEVER else set()
        for end in sorted(ends):
            for job in self.running:
                if max(job.expected_end, now) == end:
                    add_devices(room, job.on, 1)
            nodes = self.place(head.devices, room, self.placement(head, end))
            if nodes:
                add_devices(room, nodes, -1)
                return end, room
        return 1e300, room

    def _decide_preemptive(self, now: float) -> None:
        self._fall(now)
        order = sorted([*self.running, *self.waiting], key=lambda job: self.key(job, now))
        runs = {job.number for job in self.running}
        room, unseen = list(self.capacity), [job for job in order if job.number in runs]
        after: list[TwinJob] = []
        stuck = False
        guaranteed = [job for job in unseen if self._is_guaranteed(job, now)]
        for job in guaranteed:
            unseen.remove(job)
            add_devices(room, job.on, -1)
        for job in order:
            ran = job.number in runs
            if job in guaranteed:
                after.append(job)
                continue
            if ran:
                unseen.remove(job)
            if not ran and stuck:
                continue
            if ran and not self.rules.repack and all(room[n] >= uses for n, uses in job.on):
                add_devices(room, job.on, -1)
                after.append(job)
                continue
            nodes = self._find(job, room, unseen, now)
            add_devices(room, nodes, -1)
            if ran and nodes and self.rules.repack:
                job.note_held_back(now)
                job.remaining = job.left(now)
                self._take(job, nodes)
                self._set_finish(job, now)
            elif ran:
                self._stop(job, now, PREEMPTED, self.rules.preempted_save)
            if nodes and not (ran and self.rules.repack):
                self._start(job, now, nodes)
            if nodes:
                after.append(job)
            elif not ran and self.rules.blocking == STRICT:
                stuck = True
        kept = {job.number for job in after}
        self.waiting = [job for job in order if job.number not in kept]
        for job in self.waiting:
            job.queued = now if job.number in runs else job.queued
        self.running, self.free = after, room
        self.line = [*self.running, *self.waiting]

    def _is_guaranteed(self, job: TwinJob, now: float) -> bool:
        return now < job.started + self.rules.guaranteed_s

    def _find(self, job: TwinJob, room: list[int], unseen: list[TwinJob], now: float) -> Nodes:
        """Nodes where nobody runs if possible, else where as few of the last jobs as it takes give way."""
        kind = self.rules.placement if job in self.running else self.placement(job, now)
        if self.rules.repack:
            return self.place(job.devices, room, kind)
        idle = list(room)
        for other in unseen:
            add_devices(idle, other.on, -1)
        if nodes := self.place(job.devices, idle, kind):
            return nodes
        for other in reversed(unseen):
            ranks = self.table.key[other.number] > self.table.key[job.number]
            if self.rules.kind == RANKED and not ranks:
                continue
            add_devices(idle, other.on, 1)
            if nodes := self.place(job.devices, idle, kind):
                return nodes
        return []
