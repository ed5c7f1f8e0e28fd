"""A row of servers that answer requests under one power feed, with caps that act late and a brake of the last resort.

Each server answers one request after the other: the prompt, then token by token, at the watts and speeds that the
serving simulator has for each clock. A manager reads the row's watts and locks clocks, out of band: what it decides
acts `delay_s` later. Above the feed's limit a brake takes all clocks down at once.

Source: Patel et al. 2024, POLCA (arXiv 2308.12908), sections 5 and 6: two thresholds, low priority first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask

FULL, FIRST, SECOND, BRAKE = range(4)
"""Clocks: none locked, that of the first threshold, that of the second, that of the brake."""
IDLE, PROMPT, TOKENS = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPower:
    """A server at each of the clocks FULL, FIRST, SECOND, BRAKE; shape (4,) each."""

    prompt_w: Floats
    """Of the whole server while it reads a prompt."""
    tokens_w: Floats
    idle_w: float
    prompt_speed: Floats
    """Over that at the full clock."""
    tokens_speed: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """How the manager acts. Thresholds are shares of the feed's watts."""

    limit_w: float
    first: float = 0.80
    """Above it servers of low priority are locked to the first clock."""
    second: float = 0.89
    """Above it those of low priority are locked to the second clock, and, if that has not helped, those of high
    priority to the first."""
    release: float = 0.05
    """How far below its threshold the row has to fall before a lock is taken back."""
    delay_s: float = 40.0
    """Until a lock acts, out of interval."""
    read_s: float = 2.0
    """Between two readings of the row's watts."""
    brake_s: float = 5.0
    """From the limit being passed to the brake."""
    caps: bool = True
    """Whether the manager locks clocks at all; the brake is there anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequests:
    """Requests in the order of their arrival; times are those at the full clock."""

    arrival_s: Floats
    high: Mask
    prompt_s: Floats
    tokens_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCourse:
    """What happened."""

    watts: Floats
    """Of the row, in steps of `step_s`."""
    step_s: float
    brakes: int
    """Times that the brake came."""
    latency_s: Floats
    """Of each request, from arrival to end; NaN of those that had not ended."""
    capped_share: float
    """Of the time, with any clock locked."""

    def p99(self, rows: Mask) -> float:
        """Latency that one of a hundred requests exceeds, among some that have ended."""
        own = self.latency_s[rows]
        return float(np.percentile(own[np.isfinite(own)], 99))


@dataclass(slots=True)
class _Manager:
    """Locks that were decided, and when they act."""

    rules: RowRules
    wanted: tuple[int, int] = (FULL, FULL)
    """Clock of low and of high priority, as last decided."""
    acting: tuple[int, int] = (FULL, FULL)
    under_way: deque[tuple[float, tuple[int, int]]] | None = None
    braked: bool = False
    over_since: float | None = None
    brakes: int = 0
    second_since: float | None = None

    def read(self, now: float, watts: float) -> None:
        """Look at the row and decide."""
        rules, share = self.rules, watts / self.rules.limit_w
        self._brake(now, share)
        if rules.caps:
            wanted = self._decide(now, share)
            if wanted != self.wanted:
                self.wanted = wanted
                self.under_way = self.under_way or deque()
                self.under_way.append((now + rules.delay_s, wanted))

    def _decide(self, now: float, share: float) -> tuple[int, int]:
        rules, (low, high) = self.rules, self.wanted
        if share > rules.second:
            if low == SECOND and self.second_since is not None and now - self.second_since >= rules.delay_s:
                high = FIRST
            if low != SECOND:
                self.second_since = now
            low = SECOND
        elif share > rules.first:
            low = max(low, FIRST)
        if share < rules.second - rules.release:
            high = FULL
            low = min(low, FIRST)
        if share < rules.first - rules.release:
            low = FULL
        return low, high

    def _brake(self, now: float, share: float) -> None:
        if share <= 1.0:
            self.over_since = None
        elif self.over_since is None:
            self.over_since = now
        if not self.braked and self.over_since is not None and now - self.over_since >= self.rules.brake_s:
            self.braked, self.brakes = True, self.brakes + 1
        elif self.braked and share < self.rules.second - self.rules.release:
            self.braked = False

    def clocks(self, now: float) -> tuple[int, int]:
        """Clock of low and of high priority at a moment."""
        while self.under_way and self.under_way[0][0] <= now:
            self.acting = self.under_way.popleft()[1]
        return (BRAKE, BRAKE) if self.braked else self.acting


def simulate_row(
    power: ServerPower, rules: RowRules, requests: RowRequests, high: Mask, span_s: float, step_s: float = 1.0
) -> RowCourse:
    """Run a row for a while.

    Args:
        power: of each server; all are equal.
        rules: of the feed and its manager.
        requests: that arrive; one of high priority goes to a server of high priority.
        high: which servers are of high priority, shape (servers,).
        span_s: seconds.
        step_s: seconds of one step; a request that ends in a step frees its server in the next one.
    """
    servers = len(high)
    phase: Ints = np.zeros(servers, np.int64)
    left, holds = np.zeros(servers), np.full(servers, -1, np.int64)
    queues: tuple[deque[int], deque[int]] = (deque(), deque())
    latency = np.full(len(requests.arrival_s), np.nan)
    manager, arrived, capped = _Manager(rules), 0, 0
    steps = int(span_s / step_s)
    watts = np.empty(steps)
    for i in range(steps):
        now = i * step_s
        while arrived < len(requests.arrival_s) and requests.arrival_s[arrived] <= now:
            queues[int(requests.high[arrived])].append(arrived)
            arrived += 1
        for server in np.flatnonzero(phase == IDLE).tolist():
            if queue := queues[int(high[server])]:
                holds[server] = queue.popleft()
                phase[server], left[server] = PROMPT, requests.prompt_s[holds[server]]
        low_clock, high_clock = manager.clocks(now)
        clock = np.where(high, high_clock, low_clock)
        capped += (low_clock, high_clock) != (FULL, FULL)
        drawn = np.where(phase == PROMPT, power.prompt_w[clock], power.tokens_w[clock])
        watts[i] = float(np.where(phase == IDLE, power.idle_w, drawn).sum())
        _advance(power, requests, phase, left, holds, clock, step_s)
        for server in np.flatnonzero((phase == IDLE) & (holds >= 0)).tolist():
            latency[holds[server]] = now + step_s - requests.arrival_s[holds[server]]
            holds[server] = -1
        if now % rules.read_s < step_s:
            manager.read(now, float(watts[i]))
    return RowCourse(
        watts=watts, step_s=step_s, brakes=manager.brakes, latency_s=latency, capped_share=capped / max(steps, 1)
    )


def _advance(
    power: ServerPower, requests: RowRequests, phase: Ints, left: Floats, holds: Ints, clock: Ints, step_s: float
) -> None:
    """One step of all servers: what a prompt leaves of it goes to its tokens."""
    time = np.full(len(phase), step_s)
    for kind, speed in ((PROMPT, power.prompt_speed), (TOKENS, power.tokens_speed)):
        rows = np.flatnonzero(phase == kind)
        needed = left[rows] / speed[clock[rows]]
        spent = np.minimum(needed, time[rows])
        left[rows] = np.maximum(left[rows] - spent * speed[clock[rows]], 0.0)
        time[rows] -= spent
        ended = rows[needed <= spent + 1e-12]
        phase[ended] = TOKENS if kind == PROMPT else IDLE
        if kind == PROMPT:
            left[ended] = requests.tokens_s[holds[ended]]
