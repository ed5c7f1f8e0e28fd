"""What a spot fleet costs a run on average, without a replication: its drawn nodes over time, gone through once.

The job goes on with the units (replicas or nodes) that are there, stops when nodes of it are reclaimed, and takes nodes
back that have come. Saves and failures are left out: the closed form has those. A reclaim that may hit idle nodes costs
its stop times the probability that it does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.runs.event_loop.program import Market, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotMean:
    """Of a job on a spot fleet, over the time of the drawn fleets."""

    stretch: float
    """Wall time over ideal time: fewer nodes, stops for reclaims and growth, waits; infinite: no step is done."""
    running: float
    """Share of the wall time in steps."""
    in_job: float
    """Nodes in the job."""
    held: float
    """Nodes of the fleet."""


@dataclass(slots=True)
class _Pass:
    """One fleet, gone through from its first moment to its last."""

    program: Program
    notice_s: float
    now: float = 0.0
    level: int = 0
    missing: int = 0
    """Units; more than the job can do without: it waits."""
    up_at: float = 0.0
    """When the restart under way ends."""
    work_s: float = 0.0
    running_s: float = 0.0
    in_job_s: float = 0.0
    held_s: float = 0.0

    def lacks(self, level: int) -> int:
        """Units that so many nodes leave missing."""
        nodes = self.program.nodes
        return -(-max(nodes.job - level, 0) // nodes.per_replica)

    @property
    def waits(self) -> bool:
        return self.missing >= len(self.program.job.slow_by_missing)

    @property
    def in_job(self) -> int:
        nodes = self.program.nodes
        return 0 if self.waits else max(nodes.job - self.missing * nodes.per_replica, 0)

    def back_s(self, load_s: float, units: int) -> float:
        """A restart, with another number of units than before or not."""
        r = self.program.restart
        convert_s = r.convert_s if units != self.missing else 0.0
        return r.schedule_s + r.initialise_s + r.compile_s + r.refill_s + load_s + convert_s

    def until(self, end: float) -> None:
        """Go on to the next event: restart, grow where there are nodes, work."""
        self.held_s += self.level * (end - self.now)
        while self.now < end:
            if self.waits:
                self.now = end
            elif self.now < self.up_at:
                step = min(self.up_at, end)
                self.in_job_s += self.in_job * (step - self.now)
                self.now = step
            else:
                grows_at = math.inf
                if self.lacks(self.level) < self.missing:
                    grows_at = max(self.now, self.up_at + self.program.restart.regrow_after_s)
                step = min(end, grows_at)
                seconds = step - self.now
                self.work_s += seconds / float(self.program.job.slow_by_missing[self.missing])
                self.running_s += seconds
                self.in_job_s += self.in_job * seconds
                self.now = step
                if step == grows_at and step < end:
                    self.grow()

    def grow(self) -> None:
        """Save, and take the nodes that have come."""
        tiers, units = self.program.tiers, self.lacks(self.level)
        saved = float(tiers.block_s[-1] + tiers.lag_s[-1]) + self.program.restart.regrow_s
        self.up_at = self.now + saved + self.back_s(float(tiers.load_s[-1]), units)
        self.missing = units

    def meet(self, level: int) -> None:
        """Nodes come or go."""
        gone, units = self.level - level, self.lacks(level)
        tiers = self.program.tiers
        if gone > 0 and not self.waits and self.level:
            hit = 1.0 if units > self.missing else 1.0 - (1.0 - min(self.in_job / self.level, 1.0)) ** gone
            units = max(units, self.missing)
            saved_s, lost_s, load_s = self.reclaimed(gone)
            restarting = self.now < self.up_at
            self.work_s -= 0.0 if restarting else hit * lost_s
            begins = self.now + (0.0 if restarting else hit * saved_s)
            self.up_at = max(self.up_at, begins + hit * self.back_s(load_s, units))
            self.missing = units
        elif gone < 0 and self.waits and units < len(self.program.job.slow_by_missing):
            self.up_at = self.now + self.back_s(float(tiers.load_s[-1]), units)
            self.missing = units
        elif self.waits:
            self.missing = units
        self.level = level

    def reclaimed(self, gone: int) -> tuple[float, float, float]:
        """(seconds of a save within the notice, ideal seconds lost, load) when so many nodes go at once."""
        tiers, interval = self.program.tiers, self.program.job.interval_s
        tolerates = tiers.tolerates if len(tiers.tolerates) else np.full(len(tiers.every), 1 << 30)
        kept = [k for k in range(len(tiers.every)) if tolerates[k] >= gone]
        takes = {k: float(tiers.block_s[k] + tiers.lag_s[k]) for k in kept}
        fit = [k for k in kept if takes[k] <= self.notice_s]
        if fit:
            k = min(fit, key=lambda k: takes[k])
            return takes[k], 0.0, float(tiers.load_s[k])
        if not kept:
            return 0.0, self.work_s, 0.0
        k = min(kept, key=lambda k: int(tiers.every[k]))
        return 0.0, 0.5 * interval * int(tiers.every[k]) + float(tiers.lag_s[k]), float(tiers.load_s[k])


def spot_mean(program: Program, markets: Sequence[Market]) -> SpotMean:
    """What the fleets that were drawn cost a program on average.

    Valid for: within 5 % of the replications' days on generated fleets that keep half of their nodes
    (tests/unit/runs/test_expected_spot.py).
    """
    total = wall = running = in_job = held = 0.0
    for market in markets:
        one = _Pass(program, market.notice_s)
        at, first = np.unique(market.at, return_index=True)
        moved = np.add.reduceat(np.where(market.comes, 1, -1), first)
        level = market.present
        for place, (moment, change) in enumerate(zip(at.tolist(), moved.tolist(), strict=True)):
            if moment >= market.cycle_s:
                break
            one.until(moment)
            level += change
            if place == 0 and moment == 0.0:
                one.level, one.missing = level, one.lacks(level)
            else:
                one.meet(level)
        one.until(market.cycle_s)
        total, wall = total + one.work_s, wall + market.cycle_s
        running, in_job, held = running + one.running_s, in_job + one.in_job_s, held + one.held_s
    return SpotMean(
        stretch=wall / total if total > 0 else math.inf, running=running / wall, in_job=in_job / wall, held=held / wall
    )
