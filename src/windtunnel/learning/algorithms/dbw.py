"""Dynamic backup workers: each step waits for the number of gradients that is estimated to gain most a second.

All workers compute a gradient at the newest parameters; the server steps when k have arrived, and throws away those
that come later (a static k is the rival). `late: interrupt` ends their work at once, `late: finish` lets them end it.

Source: Xu, Neglia and Sebastianelli 2020 (arXiv 2004.14696), sections 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Reals
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import NOTHING, Answer, Rules, Server, Upload
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import started
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.learning.participation.backup import Decrease, RoundTrips, best_number
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True, kw_only=True)
class BackupWorkers:
    """An `ArrivalAlgorithm`; see the module."""

    rules: Rules
    job: Job
    static: int | None
    interrupt: bool
    window: int
    chosen: list[int] = field(default_factory=list)
    """k of each server step."""
    _wait_for: int = 0
    _uploads: list[Upload] = field(default_factory=list)
    _lost: int = 0
    _seconds: Floats | None = None
    _decrease: Decrease = field(init=False)
    _trips: RoundTrips = field(init=False)

    def start(self, initial: Reals) -> Server:
        """See `ArrivalAlgorithm.start`."""
        self._decrease, self._trips = Decrease(self.window), RoundTrips()
        self.chosen.clear()
        self._uploads.clear()
        self._lost = 0
        self._seconds = None
        self._wait_for = self.static or 1
        return started(initial, Average())

    def assign(self, server: Server, worker: int, now_s: float) -> int:
        """One gradient."""
        del server, worker, now_s
        return 1

    def arrived(self, server: Server, upload: Upload) -> Answer:
        """In time: the step waits for k. Late: thrown away, and the worker goes on with the newest parameters."""
        self._trips.see(upload.worker, upload.now_s - upload.fetched_s)
        if upload.staleness:
            if self.static is None:
                self._decrease.late(upload.version, upload.difference / upload.difference.dtype.type(upload.lr))
            return Answer(merged=False, release=(upload.worker,))
        self._uploads.append(upload)
        return self._stepped(server)

    def lost(self, server: Server, worker: int, now_s: float) -> Answer:
        """The step does not wait for it."""
        del worker, now_s
        self._lost += 1
        return self._stepped(server)

    def _stepped(self, server: Server) -> Answer:
        if not self._uploads or len(self._uploads) < min(self._wait_for, self.job.workers - self._lost):
            return NOTHING
        self._uploads.sort(key=lambda upload: upload.worker)
        lr = self._uploads[0].lr
        rows = np.stack([upload.difference for upload in self._uploads])
        server.anchor = server.anchor - rows.mean(axis=0)[None, :]
        server.version += 1
        self.chosen.append(len(self._uploads))
        if self.static is None:
            self._decrease.see(server.version - 1, rows / rows.dtype.type(lr))
            n = self.job.workers
            if server.version % self.window == 0:
                self._seconds = self._trips.step_seconds(n)
            self._wait_for = best_number(self._decrease.gains(n, lr), self._seconds, n, self._wait_for)
        self._uploads.clear()
        self._lost = 0
        return Answer(release="all", interrupt=self.interrupt)

    def woken(self, server: Server, now_s: float) -> Answer:
        """No timers."""
        del server, now_s
        return NOTHING

    def midway(self, server: Server, worker: int, params: Reals, version: int) -> Reals:
        """Goes on as it was."""
        del server, worker, version
        return params

    def reported(self, server: Server) -> Reals:
        """The server's parameters."""
        return server.anchor


def build(job: Job, knobs: dict[str, Any]) -> BackupWorkers:
    """See the module."""
    if job.inner.states:
        rule = "dbw throws gradients away, so the server steps: it needs the inner optimizer `sgd` without momentum"
        raise BadInput(Problem(field="learning.inner", value=type(job.inner).__name__.lower(), rule=rule))
    return BackupWorkers(
        rules=Rules(),
        job=job,
        static=min(knobs["wait_for"], job.workers) if knobs["wait_for"] else None,
        interrupt=knobs["late"] == "interrupt",
        window=knobs["window"],
    )


ALGORITHMS.add(
    "dbw",
    AlgorithmKind(
        id="dbw",
        summary="each step waits for the number of gradients that gains most a second",
        driver="arrivals",
        build=build,
        knobs={
            "wait_for": Knob(None, 1, 100_000, "k: gradients that every step waits for; absent: chosen anew each step"),
            "window": Knob(20, 2, 100_000, "steps over which gains and times are averaged"),
            "late": Knob("finish", choices=("finish", "interrupt"), doc="what becomes of gradients that come late"),
        },
        family="fault-straggler",
        source="Xu, Neglia and Sebastianelli 2020 (arXiv 2004.14696), sections 2 and 3",
        deviates="curvature is estimated from gradients, not losses; seconds of k arrivals by replaying round trips",
    ),
)
