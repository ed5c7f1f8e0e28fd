"""A server that closes a round when the first m uploads have arrived. It registers no algorithm.

The frame of synchronous algorithms whose rounds the clock decides: workers beyond m are given up, fail or time out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms.arrival import NOTHING, Answer, Rules, Server, Upload
from windtunnel.learning.algorithms.buffered import started, step_server
from windtunnel.learning.outer.base import OuterOptimizer


@dataclass(slots=True, kw_only=True)
class Synchronous:
    """An `ArrivalAlgorithm` in rounds: who is chosen fetches the same parameters, the first `needed` are averaged."""

    rules: Rules
    local_steps: int
    needed: int
    """m: uploads that a round waits for, where as many are still to come."""
    outer: OuterOptimizer
    by_samples: bool = False
    """Whether differences are weighted by their workers' samples."""
    _asked: int = 0
    _uploads: list[Upload] = field(default_factory=list)

    def start(self, initial: Reals) -> Server:
        """See `ArrivalAlgorithm.start`."""
        self._asked = 0
        self._uploads.clear()
        return started(initial, self.outer)

    def assign(self, server: Server, worker: int, now_s: float) -> int:
        """The same local steps for all."""
        del server, worker, now_s
        self._asked += 1
        return self.local_steps

    def arrived(self, server: Server, upload: Upload) -> Answer:
        """The round ends with the last upload that it waits for."""
        self._uploads.append(upload)
        return self._closed(server)

    def lost(self, server: Server, worker: int, now_s: float) -> Answer:
        """One fewer can come."""
        del worker, now_s
        self._asked -= 1
        return self._closed(server)

    def _closed(self, server: Server) -> Answer:
        if len(self._uploads) < min(self.needed, self._asked):
            return NOTHING
        after_s = 0.0
        if self._uploads:
            after_s = self.aggregation_s(self._uploads)
            self._uploads.sort(key=lambda upload: upload.worker)
            step_server(server, self.outer, self._mean())
        self._uploads.clear()
        self._asked = 0
        return Answer(release="all", interrupt=True, after_s=after_s)

    def _mean(self) -> Reals:
        rows = np.stack([upload.difference for upload in self._uploads])
        if not self.by_samples:
            return np.asarray(rows.mean(axis=0))
        weights = np.array([upload.samples for upload in self._uploads])
        return np.asarray((weights / weights.sum()).astype(rows.dtype) @ rows)

    def aggregation_s(self, uploads: list[Upload]) -> float:
        """Seconds between the last upload and the new parameters; uploads are in the order of their arrivals."""
        del uploads
        return 0.0

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
