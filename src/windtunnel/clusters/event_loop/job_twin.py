"""A job in the plain loop, and what happens to its work: the twin of `failures_kernel.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from windtunnel.clusters.event_loop.power_records import FULL
from windtunnel.clusters.event_loop.records import FAILS, NEVER, SOUND

Nodes = list[tuple[int, int]]
"""Node and devices on it."""


@dataclass(slots=True)
class TwinJob:
    """One job."""

    number: int
    devices: int
    remaining: float
    ready: float = 0.0
    speed: float = 1.0
    finish: float = 0.0
    started: float = 0.0
    attained: float = 0.0
    expected_end: float = 0.0
    first_start: float = float("nan")
    end: float = float("nan")
    run_s: float = 0.0
    starts: int = 0
    kills: int = 0
    fate: int = SOUND
    fails_at: float = NEVER
    lost: float = 0.0
    draws: int = 0
    level: int = 0
    queued: float = 0.0
    clock_speed: float = 1.0
    lock: int = FULL
    locked: float = 0.0
    held_back: float = 0.0
    on: Nodes = field(default_factory=list)

    def left(self, now: float) -> float:
        """Seconds of work left."""
        return max(self.remaining - max(now - self.ready, 0.0) * self.speed, 0.0)

    def devices_on(self, node: int) -> int:
        """Devices of a node that it holds."""
        return sum(uses for n, uses in self.on if n == node)

    def note_held_back(self, now: float) -> None:
        """Write down what a locked clock has taken since it was last looked at."""
        since = max(self.ready, self.locked)
        if now > since:
            self.held_back += (now - since) * (1.0 - self.clock_speed)
        self.locked = now

    def set_end(self) -> None:
        """When it ends, or its own failure comes before that."""
        self.finish, self.fate = self.ready + self.remaining / self.speed, SOUND
        if self.ready < NEVER and self.fails_at < self.finish:
            self.finish, self.fate = self.fails_at, FAILS

    def roll_back(self, now: float, save_s: float) -> None:
        """Lose what came after the last checkpoint."""
        done = self.remaining - self.left(now)
        saved = done // save_s * save_s
        self.lost += done - saved
        self.remaining -= saved

    def slow_down(self, now: float, factor: float) -> None:
        """Go on slower; what was done stays done."""
        self.speed /= factor
        if self.ready < now:
            self.ready = now - (now - self.ready) * factor
        if self.fate in (SOUND, FAILS):
            self.set_end()
