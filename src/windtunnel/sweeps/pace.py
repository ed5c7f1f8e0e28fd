"""How long the rest of a sweep takes: what its cells usually take, over the work that all processes do in a second.

Cells cost unlike amounts; the order in which they are computed (`windtunnel.sweeps.order`) makes those done a fair
sample of those left. How many seconds of cells are worked off in a second is counted since all processes are warm, so
that neither their start nor the first cell of each, which loads tables, is taken for the pace.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

DOUBT_S = 5.0
DOUBT_CELLS = 10.0
"""Seconds, and usual cells, after which a count of the work of all processes is trusted half; before, they are taken to
work all the time."""
WINDOW_S = 300.0
"""Seconds over which the work of all processes is counted."""
LEAST_SHARE = 0.05
"""Part of the time that processes work at least."""


@dataclass(slots=True)
class Pace:
    """Seconds that are left, from what was done."""

    left: int
    """Cells to be computed."""
    processes: int
    """Processes that compute."""
    clock: Callable[[], float] = time.monotonic
    _done: int = 0
    """Cells done by warm processes."""
    _work_s: float = 0.0
    """Seconds that these took, of their own process."""
    _warm: int = 0
    _begun: float = 0.0
    _first_s: float = 0.0
    """When the first process was warm."""
    _marks: list[tuple[float, float]] = field(default_factory=list)
    """When how many seconds of cells were worked off, since the last process was warm."""

    def __post_init__(self) -> None:
        """Take note of the begin."""
        self._begun = self.clock()

    def note(self, seconds: float, *, cold: bool) -> None:
        """A cell is done.

        Args:
            seconds: That its process took.
            cold: Whether it was the first of its process.
        """
        self.left -= 1
        if not cold:
            self._done += 1
            self._work_s += seconds
        elif self._warm < self.processes:  # one that takes the place of a dead process begins nothing anew
            self._warm += 1
            self._marks = [(self.clock(), self._work_s)]
            if self._warm == 1:
                self._first_s = self.clock() - self._begun

    def left_s(self) -> float | None:
        """Seconds that the rest takes; None before anything is known of it."""
        if self.left <= 0:
            return 0.0
        if self._done < 2:
            return None
        now = self.clock()
        work_s, rate = self.left * self._work_s / self._done, self._rate(now)
        if not 0 < self._warm < self.processes:
            return work_s / rate
        own = rate * self._warm / self.processes  # the others are warm after as long as the first one took
        wait_s = max(2.0 * self._first_s - (now - self._begun), 0.1 * self._first_s)
        return work_s / own if work_s < own * wait_s else wait_s + (work_s - own * wait_s) / rate

    def _rate(self, now: float) -> float:
        """Seconds of cells in a second, of all processes together."""
        most = float(self.processes)
        if not self._marks or self._warm < self.processes:
            return most
        if now - self._marks[-1][0] > WINDOW_S / 60:
            self._marks.append((now, self._work_s))
            while len(self._marks) > 2 and now - self._marks[1][0] > WINDOW_S:
                self._marks.pop(0)
        since, before = self._marks[0]
        span = now - since
        trust = span / (span + DOUBT_S + DOUBT_CELLS * self._work_s / self._done)
        seen = min((self._work_s - before) / span, most) if span > 0.0 else most
        return max(trust * seen + (1.0 - trust) * most, LEAST_SHARE * most)
