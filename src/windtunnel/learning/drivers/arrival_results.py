"""What an arrival-driven run has to tell."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.learning.drivers.flights import LivingWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalCurve:
    """Points of a curve, each after a server step; the first is before anything was learned.

    Arrays of the curve have shape (points,), those of workers (workers,).
    """

    steps: Ints
    """Local steps that have arrived over the workers that a round is made of (`Participation.width`)."""
    server_steps: Ints
    time_s: Floats
    loss: Floats
    """On held-out data."""
    metric: Floats
    """NaN where the task has none."""
    point_uploads: Ints
    """Uploads begun by then."""
    point_bytes: Floats
    """Bytes up and down by then."""
    point_compute_s: Floats
    """Seconds of all workers' local steps that have ended by then; what computing has cost."""
    staleness: Ints
    """Merged uploads by server steps between fetch and arrival: entry s counts those that were s steps late."""
    uploads: int
    """Begun, whether or not they arrived or were merged."""
    merged: int
    dropped: int
    """Arrived and thrown away."""
    given_up: int
    """Rounds that never arrived: failures, time-outs, workers beyond those waited for."""
    failures: int
    bytes_up: float
    bytes_down: float
    compute_s: Floats
    transfer_s: Floats
    idle_s: Floats
    """Alive, and neither computing nor sending nor receiving."""
    down_s: Floats
    """Failed, or not joined yet."""
    duration_s: float
    worker_steps: int
    """Local steps computed."""
    server_cpu_s: float = 0.0
    """CPU seconds of aggregation, where the algorithm says so."""
    ended: str = "steps"
    """Why: `steps`, `time`, `target`, `diverged`, `nobody` (all have left), `starved` (rounds never arrive)."""
    order: str = ""
    """A hash over the order in which uploads arrived and what was made of them."""

    @property
    def mean_staleness(self) -> float:
        """Server steps between fetch and arrival, mean over merged uploads; NaN where none was merged."""
        total = int(self.staleness.sum())
        return float((self.staleness * range(len(self.staleness))).sum() / total) if total else float("nan")

    @property
    def utilisation(self) -> Floats:
        """Share of each worker's alive time in which it computed; 0 for one that never lived."""
        alive = self.compute_s + self.transfer_s + self.idle_s
        return np.asarray(self.compute_s / (alive + (alive == 0)))


@dataclass(slots=True)
class Accounts:
    """What is counted while a run goes on."""

    uploads: int = 0
    merged: int = 0
    dropped: int = 0
    given_up: int = 0
    bytes_up: float = 0.0
    bytes_down: float = 0.0
    computed_s: float = 0.0
    staleness: dict[int, int] = field(default_factory=dict)
    points: list[tuple[float, ...]] = field(default_factory=list)
    """(steps, server steps, seconds, loss, metric, uploads, bytes, seconds of local steps) of each."""
    _order: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    def arrived(self, worker: int, number: int, staleness: int, merged: bool, server_steps: int) -> None:
        """An upload has arrived, and what was made of it."""
        if merged:
            self.merged += 1
            self.staleness[staleness] = self.staleness.get(staleness, 0) + 1
        else:
            self.dropped += 1
        self._order.update(b"%d %d %d;" % (worker, number, server_steps + 2 * merged))

    def point(self, steps: int, version: int, now_s: float, loss: float, metric: float) -> None:
        """A point of the curve."""
        moved = self.bytes_up + self.bytes_down
        self.points.append((steps, version, now_s, loss, metric, self.uploads, moved, self.computed_s))

    def curve(self, workers: Sequence[LivingWorker], *, duration_s: float, **rest: Any) -> ArrivalCurve:
        """All of it, with the accounts of workers; `rest` are other fields of the curve."""
        alive = np.array([w.alive_s + (duration_s - w.alive_since if w.alive_since < inf else 0.0) for w in workers])
        compute = np.array([w.compute_s for w in workers])
        transfer = np.array([w.transfer_s for w in workers])
        histogram = np.zeros(max(self.staleness, default=-1) + 1, np.int64)
        for late, count in self.staleness.items():
            histogram[late] = count
        columns = [np.array(column) for column in zip(*self.points, strict=True)] or [np.zeros(0)] * 8
        steps, versions, times, loss, metric, uploads, moved, computed = columns
        return ArrivalCurve(
            steps=steps.astype(np.int64),
            server_steps=versions.astype(np.int64),
            time_s=times,
            loss=loss,
            metric=metric,
            point_uploads=uploads.astype(np.int64),
            point_bytes=moved,
            point_compute_s=computed,
            staleness=histogram,
            uploads=self.uploads,
            merged=self.merged,
            dropped=self.dropped,
            given_up=self.given_up,
            failures=sum(w.failures for w in workers),
            bytes_up=self.bytes_up,
            bytes_down=self.bytes_down,
            compute_s=compute,
            transfer_s=transfer,
            idle_s=np.maximum(alive - compute - transfer, 0.0),
            down_s=np.maximum(duration_s - alive, 0.0),
            duration_s=duration_s,
            order=self._order.hexdigest(),
            **rest,
        )
