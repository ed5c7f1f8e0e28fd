"""One instance that changes its size: it grows in place while it serves, or stops and starts anew.

Sizes are pools of the fleet with limits and iteration times of their own; the instance's lane moves from one to the
next. It shrinks when no look within `cooldown_s` wanted its size and what it holds has room in the smaller one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.serving.autoscale.resize_time import Growth
from windtunnel.serving.event_loop.fleet_control import Control
from windtunnel.specs.autoscale import AutoscaleSpec

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.reference import ReferenceLoop
    from windtunnel.serving.event_loop.twin.request import Request

LOOK, READY = 0, 1


class Elastic(Control):
    """One object a run.

    Args:
        spec: signal, times, method.
        devices: of each size.
        steps: growth from each size to each larger one, by (from, to).
    """

    def __init__(self, spec: AutoscaleSpec, devices: Sequence[int], steps: dict[tuple[int, int], Growth]) -> None:
        self.spec, self.devices, self.steps = spec, list(devices), steps
        self.at, self.to = 0, 0
        self.wanted: deque[tuple[float, int]] = deque()
        self.kept: list[Request] = []
        self.down = False
        self.arrived = 0
        self.paid, self.since = 0.0, 0.0
        self.changes: list[tuple[float, int, int]] = []
        """(when, devices that serve, devices that start)."""
        self.growths: list[tuple[float, float]] = []
        """(decision, seconds until it served)."""

    def begin(self, loop: ReferenceLoop) -> None:
        """The run begins."""
        super().begin(loop)
        self.one = loop.entries[0]
        self.file(LOOK, self.spec.interval_s)
        self._note(0.0)

    def takes(self, q: Request, now: float) -> bool:
        """While it is down, requests wait."""
        self.arrived += 1
        if self.down:
            self.kept.append(q)
        return not self.down

    def busy(self) -> bool:
        """Requests that wait for it count too."""
        return bool(self.kept) or super().busy()

    def event(self, number: int, now: float) -> list[int]:
        """A look, or a size that is ready."""
        if number == READY:
            kept, self.kept, self.down = self.kept, [], False
            self._become(self.to, now)
            touched = [k for q in kept for k in self.loop.arrive(q, now)]
            return [*touched, self.one.index]
        if self.busy():
            self._look(now)
            self.file(LOOK, now + self.spec.interval_s)
        return []

    def instance_seconds(self, end: float) -> float:
        """Paid until a time, in instances of the largest size."""
        held = max(self.devices[self.at], self.devices[self.to])
        return (self.paid + held * (end - self.since)) / self.devices[-1]

    # -- decisions -----------------------------------------------------------------------------------------------------
    def _look(self, now: float) -> None:
        one = self.one
        signal = {
            "concurrency": one.running + one.waiting + len(self.kept),
            "waiting": one.waiting + len(self.kept),
            "rate": self.arrived / self.spec.interval_s,
            "kv_cache_usage": one.used / one.limits.blocks * self.devices[self.at] / self.devices[0],
        }[self.spec.signal]
        self.arrived = 0
        units = signal / self.spec.target
        need = math.ceil(units * self.devices[0] / (1.0 + self.spec.tolerance) - 1e-9)
        want = next((k for k, n in enumerate(self.devices) if n >= need), len(self.devices) - 1)
        self.wanted.append((now, want))
        while self.wanted[0][0] < now - self.spec.cooldown_s:
            self.wanted.popleft()
        if self.to != self.at:
            return
        most = max(w for _, w in self.wanted)
        if want > self.at:
            self._grow(want, now)
        elif most < self.at and self._fits(most):
            self._pay(now)
            self.to = most
            self._become(most, now)

    def _grow(self, to: int, now: float) -> None:
        self._pay(now)
        self.to = to
        step = self.steps[self.at, to]
        self.growths.append((now, step.seconds))
        if step.downtime_s:
            self.down = True
            self.loop.halt(self.one)
        self.file(READY, now + step.seconds)
        self._note(now)

    def _become(self, k: int, now: float) -> None:
        self._pay(now)
        self.at = self.to = k
        self.loop.resize(self.one, k)
        self._note(now)

    def _fits(self, k: int) -> bool:
        limits = self.loop.fleet.limits[k]
        return self.one.used <= limits.blocks * 0.9 and self.one.running <= limits.max_seqs

    def _pay(self, now: float) -> None:
        self.paid += max(self.devices[self.at], self.devices[self.to]) * (now - self.since)
        self.since = now

    def _note(self, now: float) -> None:
        serving = 0 if self.down else self.devices[self.at]
        self.changes.append((now, serving, max(self.devices[self.to] - serving, 0) if self.to != self.at else 0))
