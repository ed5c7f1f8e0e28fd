"""When workers fail and are back, and when late ones join, from a failure profile and random numbers of the run.

A worker is `nodes` nodes that fail together: any cause that stops one of its processes stops the worker. Each worker is
a job of its own, so causes of a job strike each worker on its own. Causes that only slow a job down, and announced
stops (which save first), do not stop a worker here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gamma as gamma_function
from math import log1p

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.randomness import Draws
from windtunnel.specs.run import FailureCause, FailureProfile

DAY_S = 86400.0
REPAIR_S = 7200.0
"""Mean seconds of a repair where the profile knows none: automatic repair of `run.recovery`. Assumed."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A failure of one worker."""

    after_s: float
    """Seconds of life before it."""
    noticed_s: float
    """From the failure until the server knows."""
    back_s: float
    """From the failure until the worker can fetch again."""


@dataclass(slots=True)
class Outages:
    """Failures of all workers, drawn by (seed, worker, number of the failure)."""

    profile: FailureProfile | None
    draws: Draws
    nodes: int = 1
    """Of one worker."""
    devices_per_node: int = 8
    joins_s: Floats | None = None
    """When each worker joins first, shape (workers,); None: all are there from the start."""
    _factors: dict[int, float] = field(default_factory=dict)
    """Failure rate of each worker that was asked for, over the profile's."""
    _causes: tuple[FailureCause, ...] = field(init=False, default=())
    _rates: Floats = field(init=False)

    def __post_init__(self) -> None:
        causes = () if self.profile is None else self.profile.causes
        self._causes = tuple(cause for cause in causes if cause.slow == 1.0 and not cause.drains)
        rates = [self._per_s(cause) for cause in self._causes]
        self._rates = np.array(rates) * (1.0 if self.profile is None else self.profile.scale)

    @property
    def per_worker_s(self) -> float:
        """Failures of one worker in a second of life."""
        return float(self._rates.sum())

    def joins(self, worker: int) -> float:
        """When a worker joins first, in seconds."""
        return 0.0 if self.joins_s is None else float(self.joins_s[worker])

    def next(self, worker: int, number: int) -> Outage | None:
        """The next failure of a worker that has failed `number` times; None where it never fails."""
        total = self.per_worker_s
        if not total or self.profile is None:
            return None
        total *= self.factor(worker, number)
        u = self.draws.uniforms("failure of a worker", worker, number, 3)[0]
        shape = self.profile.weibull_shape
        life = (-log1p(-u[0])) ** (1.0 / shape) / (total * gamma_function(1.0 + 1.0 / shape))
        cause = self._causes[int(np.searchsorted(np.cumsum(self._rates) / self.per_worker_s, u[1], side="right"))]
        mean = self.profile.repair_s or REPAIR_S
        repair = 0.0 if cause.radius == "process" or cause.in_place else -mean * log1p(-u[2])
        noticed = cause.detect_s
        return Outage(life, noticed, noticed + cause.diagnose_s + max(repair, cause.outage_s))

    def factor(self, worker: int, number: int) -> float:
        """Failure rate of a worker that has failed `number` times over the profile's: the mean over its nodes.

        Nodes differ by a gamma law of mean 1; bad nodes are found out by the first repair.
        """
        p = self.profile
        if p is None or not (p.node_variation or p.bad_node_share):
            return 1.0
        known = self._factors.get(2 * worker + (number > 0))
        if known is None:
            of_nodes = np.ones(self.nodes)
            if p.node_variation:
                from scipy.special import gammaincinv

                shape = p.node_variation**-2.0
                uniform = self.draws.uniforms("reliability of a node", worker, 0, self.nodes)[0]
                of_nodes = np.asarray(gammaincinv(shape, uniform)) / shape
            if p.bad_node_share and not number:
                bad = self.draws.uniforms("bad nodes", worker, 0, self.nodes)[0] < p.bad_node_share
                of_nodes = np.where(bad, of_nodes * p.bad_node_factor, of_nodes)
            known = self._factors[2 * worker + (number > 0)] = float(of_nodes.mean())
        return known

    def _per_s(self, cause: FailureCause) -> float:
        """Failures of one worker from one cause in a second."""
        for rate, parts in (
            (cause.per_1000_node_days, self.nodes / 1000.0),
            (cause.per_1000_device_days, self.nodes * self.devices_per_node / 1000.0),
            (cause.per_job_day, 1.0),
        ):
            if rate is not None:
                return rate * parts / DAY_S
        if cause.per_1000_rack_days is not None and self.profile is not None:
            racks = -(-self.nodes // self.profile.nodes_per_rack)
            return cause.per_1000_rack_days * racks / 1000.0 / DAY_S
        if cause.per_link_month is not None:
            return cause.per_link_month * self.nodes * self.devices_per_node / (30.0 * DAY_S)
        if cause.per_switch_month is not None:
            return cause.per_switch_month * self.devices_per_node / (30.0 * DAY_S)
        return 0.0
