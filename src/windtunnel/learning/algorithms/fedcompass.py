"""FedCompass: workers get local steps by their speed, so that groups of them arrive together; nobody waits for all.

A worker of speed v that arrives joins a group whose arrival time it meets with Q steps, Qmin ≤ Q ≤ Qmax, the most it
can; where it meets none, it opens a group that is due when the fastest of another group will be there again, Qmax steps
at most. A group's uploads are merged together when all have arrived, or at its latest time: `late_factor` times its
length. Who comes later is merged alone.

Source: Li et al. 2024 (arXiv 2309.14675), algorithms 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor, inf
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import NOTHING, Answer, Rules, Server, Upload
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import TIMEOUT_S, polynomial, started, step_server
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.learning.outer.base import OuterOptimizer
from windtunnel.techniques.knobs import Knob

_EPS = 1e-9


@dataclass(slots=True)
class Group:
    """Workers that are to arrive together."""

    due_s: float
    latest_s: float
    members: set[int]
    uploads: list[Upload] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class FedCompass:
    """An `ArrivalAlgorithm`; see the module."""

    rules: Rules
    least: int
    most: int
    late_factor: float
    speed_memory: float
    """Share of the old estimate of a worker's speed that stays when it is measured again."""
    exponent: float
    workers: int
    outer: OuterOptimizer
    step_s: dict[int, float] = field(default_factory=dict)
    """Seconds of one local step of each worker with its share of messages, as measured."""
    groups: dict[int, Group] = field(default_factory=dict)
    _opened: int = 0

    def start(self, initial: Reals) -> Server:
        """See `ArrivalAlgorithm.start`."""
        self.step_s.clear()
        self.groups.clear()
        self._opened = 0
        return started(initial, self.outer)

    def assign(self, server: Server, worker: int, now_s: float) -> int:
        """Steps by speed, in a group; the first round, of unknown speed, has the fewest."""
        del server
        self._leave(worker)
        step_s = self.step_s.get(worker)
        if step_s is None:
            return self.least
        best: tuple[int, int] | None = None
        for number, group in self.groups.items():
            steps = floor((group.due_s - now_s) / step_s + _EPS)
            if self.least <= steps <= self.most and (best is None or steps > best[0]):
                best = (steps, number)
        if best is not None:
            self.groups[best[1]].members.add(worker)
            return best[0]
        return self._opens(worker, now_s, step_s)

    def _opens(self, worker: int, now_s: float, step_s: float) -> int:
        """A new group, due when the fastest of another one will have made the most steps once more."""
        steps = -1
        for group in self.groups.values():
            known = [self.step_s[w] for w in group.members if w in self.step_s]
            if not known or now_s >= group.latest_s:
                continue
            there_s = group.latest_s + min(known) * self.most
            fits = floor((there_s - now_s) / step_s + _EPS)
            if self.least <= fits <= self.most:
                steps = max(steps, fits)
        if steps < 0:
            steps = self.most
        length = steps * step_s
        self._opened += 1
        self.groups[self._opened] = Group(now_s + length, now_s + self.late_factor * length, {worker})
        return steps

    def arrived(self, server: Server, upload: Upload) -> Answer:
        """With its group, or alone where it has none or comes late."""
        worker = upload.worker
        measured = (upload.now_s - upload.fetched_s) / upload.steps
        old = self.step_s.get(worker)
        keep = self.speed_memory if old is not None else 0.0
        self.step_s[worker] = measured if old is None else keep * old + (1.0 - keep) * measured
        number = self._group_of(worker)
        if number is not None and upload.now_s > self.groups[number].latest_s:
            self._leave(worker)
            number = None
        if number is None:
            self._merge(server, [upload])
            return Answer(release=(worker,))
        group = self.groups[number]
        group.uploads.append(upload)
        if len(group.uploads) == len(group.members):
            return self._closes(server, number)
        return Answer(wake_s=group.latest_s)

    def _closes(self, server: Server, number: int) -> Answer:
        """Merge what of a group has arrived, and release its workers; the others are late from now on."""
        group = self.groups.pop(number)
        self._merge(server, sorted(group.uploads, key=lambda upload: upload.worker))
        return Answer(release=tuple(sorted(upload.worker for upload in group.uploads)))

    def _merge(self, server: Server, uploads: list[Upload]) -> None:
        """D = Σ w·d over the number of all workers."""
        weigh = polynomial(self.exponent)
        weights = np.array([weigh(upload) for upload in uploads])
        rows = np.stack([upload.difference for upload in uploads])
        step_server(server, self.outer, np.asarray((weights / self.workers).astype(rows.dtype) @ rows))

    def lost(self, server: Server, worker: int, now_s: float) -> Answer:
        """Its group does not wait for it."""
        del now_s
        number = self._group_of(worker)
        self._leave(worker)
        if number in self.groups and self._complete(self.groups[number]):
            return self._closes(server, number)
        return NOTHING

    def woken(self, server: Server, now_s: float) -> Answer:
        """Groups whose latest time has come are merged as they are."""
        released: list[int] = []
        for number in [n for n, group in self.groups.items() if group.latest_s <= now_s]:
            if self.groups[number].uploads:
                answer = self._closes(server, number)
                released += [worker for worker in answer.release if isinstance(worker, int)]
            else:
                del self.groups[number]
        return Answer(release=tuple(sorted(released)))

    def midway(self, server: Server, worker: int, params: Reals, version: int) -> Reals:
        """Goes on as it was."""
        del server, worker, version
        return params

    def reported(self, server: Server) -> Reals:
        """The server's parameters."""
        return server.anchor

    def _complete(self, group: Group) -> bool:
        return bool(group.uploads) and len(group.uploads) == len(group.members)

    def _group_of(self, worker: int) -> int | None:
        return next((number for number, group in self.groups.items() if worker in group.members), None)

    def _leave(self, worker: int) -> None:
        number = self._group_of(worker)
        if number is not None:
            self.groups[number].members.discard(worker)
            if not self.groups[number].members:
                del self.groups[number]


def build(job: Job, knobs: dict[str, Any]) -> FedCompass:
    """See the module."""
    return FedCompass(
        rules=Rules(timeout_s=knobs["timeout_s"] or inf),
        least=min(knobs["least_steps"], knobs["most_steps"]),
        most=knobs["most_steps"],
        late_factor=knobs["late_factor"],
        speed_memory=knobs["speed_memory"],
        exponent=knobs["staleness_exponent"],
        workers=job.workers,
        outer=Average(knobs["server_lr"]),
    )


ALGORITHMS.add(
    "fedcompass",
    AlgorithmKind(
        id="fedcompass",
        summary="local steps by speed, so that groups of workers arrive together",
        driver="arrivals",
        build=build,
        knobs={
            "least_steps": Knob(5, 1, 1_000_000, "Qmin: fewest local steps of a round"),
            "most_steps": Knob(25, 1, 1_000_000, "Qmax: most local steps of a round"),
            "late_factor": Knob(1.2, 1.0, 100.0, "a group waits this many times its length at most"),
            "speed_memory": Knob(0.0, 0.0, 0.999, "share of the old estimate of a speed that a new one leaves"),
            "staleness_exponent": Knob(0.5, 0.0, 10.0, "an upload s server steps late weighs (1 + s)^−exponent"),
            "server_lr": Knob(1.0, 0.0, 10.0, "share of the way along the weighted sum over all workers"),
            "timeout_s": TIMEOUT_S,
        },
        family="fl-edge",
        source="Li et al. 2024 (arXiv 2309.14675), algorithms 1 and 2",
    ),
)
