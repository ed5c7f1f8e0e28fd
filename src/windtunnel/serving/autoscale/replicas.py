"""As many equal instances as a signal asks for: the rule of Kubernetes' horizontal autoscaler.

Every `interval_s`: wanted = ceil(instances that serve · signal / target), unchanged within the tolerance. More is
started at once and serves after its start-up time; fewer only when no look within `cooldown_s` wanted as many. An
instance that has to go takes no requests any more, ends those it has, and is gone then. Devices are paid from the
decision to start until they are free again.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.fleet_control import Control
from windtunnel.specs.autoscale import AutoscaleSpec

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.reference import ReferenceLoop
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request

DOWN, STARTING, UP, DRAINING = 0, 1, 2, 3
LOOK = 0
"""Number of the timer; others are 1 + the instance that is ready."""


class Replicas(Control):
    """One object a run.

    Args:
        spec: bounds, signal, times.
        start_up_s: from the decision until an instance takes requests.
        initial: instances that are there at the start.
        lanes: of one instance in the loop.
    """

    def __init__(self, spec: AutoscaleSpec, start_up_s: float, initial: int, lanes: int = 1) -> None:
        assert spec.max is not None
        self.spec, self.start_up_s, self.lanes, self.most = spec, start_up_s, lanes, spec.max
        self.state = [UP if k < initial else DOWN for k in range(self.most)]
        self.since = [0.0] * self.most
        self.paid_s = 0.0
        """Instance-seconds of those that are gone."""
        self.kept: list[Request] = []
        self.wanted: deque[tuple[float, int]] = deque()
        self.arrived = 0
        self.changes: list[tuple[float, int, int]] = []
        """(when, instances that serve, instances that start)."""

    def begin(self, loop: ReferenceLoop) -> None:
        """The run begins."""
        super().begin(loop)
        self.all = list(loop.entries)
        self._route()
        self.file(LOOK, self.spec.interval_s)
        self._note(0.0)

    def event(self, number: int, now: float) -> list[int]:
        """A look, or an instance that is ready."""
        if number == LOOK:
            if self.busy():
                self._look(now)
                self.file(LOOK, now + self.spec.interval_s)
            return []
        k = number - 1
        if self.state[k] != STARTING or now < self.since[k] + self.start_up_s - 1e-9:
            return []
        self.state[k] = UP
        self._route()
        self._note(now)
        kept, self.kept = self.kept, []
        return [i for q in kept for i in self.loop.arrive(q, now)]

    def takes(self, q: Request, now: float) -> bool:
        """Where nothing serves, requests wait for what starts."""
        self.arrived += 1
        if self.loop.entries:
            return True
        self.kept.append(q)
        return False

    def completed(self, one: Instance, now: float) -> None:
        """An instance that is to go and has nothing left is gone."""
        k = one.index // self.lanes
        if k < len(self.state) and self.state[k] == DRAINING and not self._load(k):
            self._gone(k, now)

    def busy(self) -> bool:
        """Requests that wait for an instance count too."""
        return bool(self.kept) or super().busy()

    def instance_seconds(self, end: float) -> float:
        """Paid until a time."""
        return self.paid_s + sum(end - s for s, x in zip(self.since, self.state, strict=True) if x != DOWN)

    # -- decisions -----------------------------------------------------------------------------------------------------
    def _signal(self, up: list[int]) -> float:
        """Sum of the signal over instances that serve."""
        mine = [one for k in up for one in self._lanes(k)]
        if self.spec.signal == "concurrency":
            return float(sum(one.running + one.waiting for one in mine)) + len(self.kept)
        if self.spec.signal == "waiting":
            return float(sum(one.waiting for one in mine)) + len(self.kept)
        if self.spec.signal == "rate":
            return self.arrived / self.spec.interval_s
        return sum(one.used / one.limits.blocks for one in mine) / self.lanes

    def _look(self, now: float) -> None:
        up = [k for k, x in enumerate(self.state) if x == UP]
        starting = [k for k, x in enumerate(self.state) if x == STARTING]
        serving = max(len(up), 1)
        ratio = self._signal(up) / (serving * self.spec.target)
        self.arrived = 0
        here = len(up) + len(starting)
        want = here if abs(ratio - 1.0) <= self.spec.tolerance else math.ceil(serving * ratio - 1e-9)
        want = min(max(want, self.spec.min), self.most)
        self.wanted.append((now, want))
        while self.wanted[0][0] < now - self.spec.cooldown_s:
            self.wanted.popleft()
        most = max(w for _, w in self.wanted)
        if want > here:
            self._more(want - here, now)
        elif most < here:
            self._fewer(here - most, now)

    def _more(self, count: int, now: float) -> None:
        """Instances that drain serve again at once; others start."""
        for wanted in (DRAINING, DOWN):
            for k, x in enumerate(self.state):
                if count and x == wanted:
                    self.state[k] = UP if x == DRAINING else STARTING
                    if x == DOWN:
                        self.since[k] = now
                        self.file(1 + k, now + self.start_up_s)
                    count -= 1
        self._route()
        self._note(now)

    def _fewer(self, count: int, now: float) -> None:
        """Those that have not started yet go first, then those with least to do."""
        order = [k for k, x in enumerate(self.state) if x == STARTING]
        order += sorted((k for k, x in enumerate(self.state) if x == UP), key=lambda k: (self._load(k), -k))
        for k in order[:count]:
            idle = self.state[k] == STARTING or not self._load(k)
            self.state[k] = DRAINING
            if idle:
                self._gone(k, now)
        self._route()
        self._note(now)

    def _gone(self, k: int, now: float) -> None:
        self.state[k] = DOWN
        self.paid_s += now - self.since[k]
        for one in self._lanes(k):
            if one.cache is not None:
                one.cache.evict(0)
        self._note(now)

    def _load(self, k: int) -> int:
        return sum(one.running + one.waiting for one in self._lanes(k))

    def _lanes(self, k: int) -> list[Instance]:
        return self.all[k * self.lanes : (k + 1) * self.lanes]

    def _route(self) -> None:
        self.loop.entries = [one for one in self.all if self.state[one.index // self.lanes] == UP]

    def _note(self, now: float) -> None:
        self.changes.append((now, self.state.count(UP), self.state.count(STARTING)))
