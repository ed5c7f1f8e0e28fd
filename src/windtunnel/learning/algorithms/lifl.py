"""LIFL: synchronous rounds whose uploads are added in a tree of aggregators, over shared memory or by way of a broker.

Learning is that of `fedavg-sync`; what differs is when a round's sum is there and how many CPU seconds it took. Each
aggregator adds `fan_in` updates as they come. Every update that enters one is copied some times: in shared memory once,
when it comes from the network, and then it is handed on by its address; between servers twice (kernel to process at
both ends of a hop); by way of a broker with a side-car container five times (kernel to broker, broker to kernel, kernel
to side-car, side-car to kernel, kernel to aggregator). A server is there all the time; functions start when the first
of their updates comes, after `cold_start_s` where no warm one is reused.

Source: Qi et al. 2024 (arXiv 2405.10968), sections 3 to 5; copies of a hop counted from its figures 2 and 4, assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Server, Upload
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.fedavg_sync import KNOBS, rules_of_rounds
from windtunnel.learning.algorithms.synchronous import Synchronous
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob

Plane = Literal["shared-memory", "serverful", "broker"]
COPIES: dict[str, tuple[int, int]] = {"shared-memory": (1, 0), "serverful": (2, 2), "broker": (5, 5)}
"""Copies of an update that enters a leaf from the network, and of a sum on its way from one aggregator to the next."""


@dataclass(frozen=True, slots=True)
class AggregationTree:
    """Aggregators on nodes that share no queue: one update at a time each."""

    plane: Plane
    fan_in: int
    copy_bytes_per_s: float
    add_bytes_per_s: float
    cold_start_s: float
    warm: bool
    """Whether runtimes of one round are reused in the next, and those of a level in the one above it."""

    def rounds(self, arrivals_s: list[float], nbytes: float, first_round: bool) -> tuple[float, float]:
        """When the sum is there, and CPU seconds spent, of a round whose updates arrive at these times, ascending."""
        cold = self.plane != "serverful" and (first_round or not self.warm)
        entering, between = (copies * nbytes / self.copy_bytes_per_s for copies in COPIES[self.plane])
        adding = nbytes / self.add_bytes_per_s
        level, begun_s, busy_s, aggregators = sorted(arrivals_s), min(arrivals_s), 0.0, 0
        leaf = True
        while leaf or len(level) > 1:
            above = []
            start_s = self.cold_start_s if cold and (leaf or not self.warm) else 0.0
            for at in range(0, len(level), self.fan_in):
                free_s = level[at] + start_s
                for arrival_s in level[at : at + self.fan_in]:
                    free_s = max(free_s, arrival_s) + (entering if leaf else between) + adding
                    busy_s += (entering if leaf else between) + adding
                busy_s += start_s
                above.append(free_s)
                aggregators += 1
            level, leaf = sorted(above), False
        if self.plane == "serverful":
            busy_s = max(busy_s, aggregators * (level[0] - begun_s))
        return level[0], busy_s


@dataclass(slots=True, kw_only=True)
class TreeRounds(Synchronous):
    """Synchronous rounds with the tree's seconds between the last upload and the new parameters."""

    tree: AggregationTree
    server_cpu_s: float = 0.0
    aggregation_times_s: list[float] = field(default_factory=list)
    """Of each round: from its last upload to its sum."""

    def start(self, initial: Reals) -> Server:
        """See `ArrivalAlgorithm.start`."""
        self.server_cpu_s = 0.0
        self.aggregation_times_s.clear()
        return Synchronous.start(self, initial)

    def aggregation_s(self, uploads: list[Upload]) -> float:
        """See the module."""
        arrivals = [upload.now_s for upload in uploads]
        there_s, cpu_s = self.tree.rounds(arrivals, uploads[0].nbytes, not self.aggregation_times_s)
        self.server_cpu_s += cpu_s
        self.aggregation_times_s.append(there_s - arrivals[-1])
        return there_s - arrivals[-1]


def build(job: Job, knobs: dict[str, Any]) -> TreeRounds:
    """See the module."""
    return TreeRounds(
        rules=rules_of_rounds("lifl", knobs),
        local_steps=knobs["local_steps"],
        needed=knobs["active"] or job.workers,
        outer=Average(knobs["server_lr"]),
        by_samples=knobs["by_samples"],
        tree=AggregationTree(
            plane=knobs["plane"],
            fan_in=knobs["fan_in"],
            copy_bytes_per_s=knobs["copy_bytes_per_s"],
            add_bytes_per_s=knobs["add_bytes_per_s"],
            cold_start_s=knobs["cold_start_s"],
            warm=knobs["warm"],
        ),
    )


ALGORITHMS.add(
    "lifl",
    AlgorithmKind(
        id="lifl",
        summary="synchronous rounds aggregated in a tree over shared memory, between servers or by way of a broker",
        driver="arrivals",
        build=build,
        knobs={
            **KNOBS,
            "plane": Knob("shared-memory", choices=tuple(COPIES), doc="how updates travel between aggregators"),
            "fan_in": Knob(2, 2, 100_000, "updates that one aggregator adds"),
            "copy_bytes_per_s": Knob(4e9, 1.0, 1e15, "rate of one core that copies an update"),
            "add_bytes_per_s": Knob(8e9, 1.0, 1e15, "rate of one core that adds an update"),
            "cold_start_s": Knob(1.0, 0.0, 1e6, "seconds until a function runs that was not there"),
            "warm": Knob(True, doc="runtimes are reused from round to round and from level to level"),
        },
        family="fl-edge",
        source="Qi et al. 2024 (arXiv 2405.10968), sections 3 to 5",
    ),
)
