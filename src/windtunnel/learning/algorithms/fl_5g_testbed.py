"""Federated averaging on a testbed of single-board computers over Ethernet, WiFi or 5G, divided into parts of a round.

A round is a download, local steps, an upload and the aggregation; the slowest client ends it. Uploads over 5G meet in
the cell's uplink (`link.shared`), those over Ethernet do not. The published ratios of upload times (33.3 over Ethernet,
17.8 over WiFi) are properties of the testbed's links: rates are what a scenario states, they are not predicted.

Source: Hayek et al. 2025, Federated learning over 5G, WiFi, and Ethernet (arXiv 2504.04678), abstract.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Server, Upload
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.fedavg_sync import KNOBS, rules_of_rounds
from windtunnel.learning.algorithms.synchronous import Synchronous
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class RoundParts:
    """Seconds of one round; all but `round_s` and `aggregation_s` are means over its clients."""

    down_s: float
    train_s: float
    up_s: float
    aggregation_s: float
    round_s: float
    """From the first fetch to the new parameters: that of the slowest client."""

    @property
    def up_share(self) -> float:
        """Of the round, from 0 to 1."""
        return self.up_s / self.round_s


@dataclass(slots=True, kw_only=True)
class TestbedRounds(Synchronous):
    """Synchronous rounds that keep an account of their parts."""

    aggregate_s: float
    rounds: list[RoundParts] = field(default_factory=list)

    def start(self, initial: Reals) -> Server:
        """See `ArrivalAlgorithm.start`."""
        self.rounds.clear()
        return Synchronous.start(self, initial)

    def aggregation_s(self, uploads: list[Upload]) -> float:
        """Seconds of adding up, whatever came."""
        ups = np.array([(x.now_s - x.fetched_s - x.compute_s - x.upload_s, x.compute_s, x.upload_s) for x in uploads])
        down_s, train_s, up_s = ups.mean(axis=0).tolist()
        whole_s = max(x.now_s for x in uploads) - min(x.fetched_s for x in uploads) + self.aggregate_s
        self.rounds.append(RoundParts(down_s, train_s, up_s, self.aggregate_s, whole_s))
        return self.aggregate_s


def build(job: Job, knobs: dict[str, Any]) -> TestbedRounds:
    """Rounds of all clients, or of `active` of them."""
    return TestbedRounds(
        rules=rules_of_rounds("fl-5g-testbed", knobs),
        local_steps=knobs["local_steps"],
        needed=knobs["active"] or job.workers,
        outer=Average(knobs["server_lr"]),
        by_samples=knobs["by_samples"],
        aggregate_s=knobs["aggregation_s"],
    )


ALGORITHMS.add(
    "fl-5g-testbed",
    AlgorithmKind(
        id="fl-5g-testbed",
        summary="federated averaging with an account of each round: download, training, upload, aggregation",
        driver="arrivals",
        build=build,
        knobs={**KNOBS, "aggregation_s": Knob(0.0, 0.0, 1e6, "seconds of adding up the uploads of a round")},
        family="fl-edge",
        source="Hayek et al. 2025 (arXiv 2504.04678)",
    ),
)
