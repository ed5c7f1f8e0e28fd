"""Watts of rows, their managers and brakes, and the clocks of jobs, in plain Python: the twin of `power_kernel.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from windtunnel.clusters.event_loop.power_records import BRAKE, FIRST, FULL, SECOND, Feeds
from windtunnel.clusters.event_loop.records import NEVER

HOUR_S = 3600.0


class RunningJob(Protocol):
    """What the twin reads and sets of a job."""

    number: int
    on: list[tuple[int, int]]
    clock_speed: float
    lock: int

    def note_held_back(self, now: float) -> None:
        """Write down what the clock has taken."""

    def slow_down(self, now: float, factor: float) -> None:
        """Go on at another speed."""


@dataclass(slots=True)
class _Row:
    mean_w: float = -1.0
    peak_w: float = -1.0
    low: int = FULL
    high: int = FULL
    next: tuple[int, int] = (FULL, FULL)
    acts_at: float = NEVER
    over_since: float = NEVER
    braked: bool = False
    released_at: float = NEVER
    brakes: int = 0
    changed: bool = False


class PowerTwin:
    """Managers of all rows. Without rows it does nothing."""

    def __init__(self, feeds: Feeds) -> None:
        self.feeds = feeds
        self.rows = [_Row() for _ in feeds.limit_w]
        self.log: list[tuple[float, int, float, float, int, int]] = []

    def next_wake(self, now: float) -> float:
        """When a manager or a brake acts next, or a fleet's watts change with the hour."""
        moments = [NEVER]
        for row in self.rows:
            moments += [row.acts_at, row.released_at]
            if row.over_since < NEVER and not row.braked:
                moments.append(row.over_since + self.feeds.brake_s)
        hours = self.feeds.fleet_w.shape[1]
        passed = (now - self.feeds.begin_s) // HOUR_S + 1.0
        if self.rows and passed < hours:
            moments.append(self.feeds.begin_s + HOUR_S * passed)
        return max(min(moments), now)

    def act(self, now: float) -> None:
        """Commands that are due act, and brakes come."""
        for row in self.rows:
            if row.acts_at <= now:
                (row.low, row.high), row.acts_at, row.changed = row.next, NEVER, True
            if row.released_at <= now:
                row.braked, row.released_at, row.changed = False, NEVER, True
            if not row.braked and row.over_since + self.feeds.brake_s <= now:
                row.braked, row.over_since, row.changed = True, NEVER, True
                row.brakes += 1

    def _clock(self, job: RunningJob) -> int:
        rows = [self.rows[self.feeds.row_of[node]] for node, _ in job.on]
        high = self.feeds.high[job.number]
        return max(BRAKE if row.braked else (row.high if high else row.low) for row in rows)

    def read(self, now: float, running: Sequence[RunningJob]) -> None:
        """Set the clocks of jobs, sum up what rows draw, and let their managers look at it."""
        if not self.rows:
            return
        feeds = self.feeds
        before = [(row.mean_w, row.peak_w) for row in self.rows]
        for row, idle_w in zip(self.rows, feeds.idle_w.tolist(), strict=True):
            row.mean_w = row.peak_w = idle_w
        hours = feeds.fleet_w.shape[1]
        hour = min(max(int((now - feeds.begin_s) // HOUR_S), 0), hours - 1)
        for job in running:
            j, clock = job.number, self._clock(job)
            if clock != job.lock:
                speed = float(feeds.speed[j, clock])
                job.note_held_back(now)
                job.slow_down(now, job.clock_speed / speed)
                job.clock_speed, job.lock = speed, clock
            mean_w, peak_w = float(feeds.mean_w[j, clock]), float(feeds.peak_w[j, clock])
            if feeds.fleet[j] >= 0:
                mean_w = peak_w = float(feeds.fleet_w[feeds.fleet[j], hour, clock])
            for node, held in job.on:
                row = self.rows[feeds.row_of[node]]
                row.mean_w += mean_w * held
                row.peak_w += peak_w * held
        for number, (row, was) in enumerate(zip(self.rows, before, strict=True)):
            if (row.mean_w, row.peak_w) != was or row.changed:
                self._manage(row, now, float(feeds.limit_w[number]))
                row.changed = False
                self._write(number, row, now)

    def _manage(self, row: _Row, now: float, limit_w: float) -> None:
        feeds, share = self.feeds, row.peak_w / limit_w
        if share <= 1.0:
            row.over_since = NEVER
        elif not row.braked and row.over_since >= NEVER:
            row.over_since = now
        if row.braked and row.released_at >= NEVER and share < feeds.second - feeds.release:
            row.released_at = now + feeds.delay_s
        if feeds.caps and row.acts_at >= NEVER:
            wanted = self._wanted(row, share)
            if wanted != (row.low, row.high):
                row.next, row.acts_at = wanted, now + feeds.delay_s

    def _wanted(self, row: _Row, share: float) -> tuple[int, int]:
        """Clocks of low and of high priority; while the brake holds, nothing is taken back."""
        feeds, low, high = self.feeds, row.low, row.high
        if row.braked or share > feeds.second:
            return SECOND, FIRST if low == SECOND else high
        low = max(low, FIRST) if share > feeds.first else low
        if share < feeds.second - feeds.release:
            low, high = min(low, FIRST), FULL
        return (FULL if share < feeds.first - feeds.release else low), high

    def _write(self, number: int, row: _Row, now: float) -> None:
        low, high = (BRAKE, BRAKE) if row.braked else (row.low, row.high)
        line = (now, number, row.mean_w, row.peak_w, low, high)
        for at in range(len(self.log) - 1, -1, -1):
            if self.log[at][0] < now:
                break
            if self.log[at][1] == number:
                self.log[at] = line
                return
        self.log.append(line)
