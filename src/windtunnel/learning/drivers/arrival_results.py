"""What an arrival-driven run has to tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints


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

    def first_at(self, loss: float) -> int | None:
        """Index of the first point at or below a loss; None where none is."""
        hit = (self.loss <= loss).nonzero()[0]
        return int(hit[0]) if len(hit) else None
