"""Rounds on their way, and what belongs to a worker as long as it lives."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from windtunnel.arrays import Reals
from windtunnel.learning.drivers.outages import Outage
from windtunnel.learning.drivers.rounds import Segment


@dataclass(slots=True)
class Flight:
    """A round on its way."""

    worker: int
    serial: int
    version: int
    fetched: Reals
    steps: int
    number: int
    batch: int
    fetched_s: float
    progress: int
    ready: bool
    """What it computes is known: no parameters can come midway any more."""
    segment: Segment
    losses: float = 0.0
    first_gradient: Reals | None = None
    phase: str = "down"
    since_s: float = 0.0
    compute_s: float = 0.0
    transfer: int | None = None
    fresh: int | None = None


@dataclass(slots=True)
class LivingWorker:
    """What belongs to a worker as long as it lives, and its accounts."""

    rounds: int = 0
    batches: int = 0
    inner: dict[str, Reals] | None = None
    age: int = 0
    kept: Reals | None = None
    """What feedback keeps for its next upload."""
    failures: int = 0
    outage: Outage | None = None
    alive_since: float = inf
    alive_s: float = 0.0
    compute_s: float = 0.0
    transfer_s: float = 0.0
