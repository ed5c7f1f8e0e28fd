"""FedAsync: each arrival is mixed into the server's parameters, the less the later it is.

Source: Xie et al. 2019 (arXiv 1903.03934), algorithm 1 and section 5.2 (polynomial staleness).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Answer, Rules, Server, Upload
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import CONCURRENCY, LOCAL_STEPS, TIMEOUT_S, Buffered, chosen, polynomial
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True, kw_only=True)
class Mixing(Buffered):
    """a ← (1 − α)a + αx at each arrival, x what the worker ended at."""

    def arrived(self, server: Server, upload: Upload) -> Answer:
        """Mix."""
        if self.max_staleness is not None and upload.staleness > self.max_staleness:
            return Answer(merged=False, release=(upload.worker,))
        mixed(server, upload, self.weight(upload))
        return Answer(release=(upload.worker,))


def mixed(server: Server, upload: Upload, alpha: float) -> Reals:
    """Go the share `alpha` of the way from the anchor to what a worker ended at; returns the whole way, (params,)."""
    way = upload.fetched - upload.difference - server.anchor[0]
    server.anchor = server.anchor + (way * way.dtype.type(alpha))[None, :]
    server.version += 1
    return np.asarray(way)


def build(job: Job, knobs: dict[str, Any]) -> Mixing:
    """α = mix·(1 + s)^−exponent."""
    del job
    by_staleness = polynomial(knobs["staleness_exponent"])
    return Mixing(
        rules=Rules(who=chosen(knobs["concurrency"]), timeout_s=knobs["timeout_s"] or inf, proximal=knobs["proximal"]),
        local_steps=knobs["local_steps"],
        buffer=1,
        outer=Average(),
        weight=lambda upload: knobs["mix"] * by_staleness(upload),
        max_staleness=knobs["max_staleness"],
    )


ALGORITHMS.add(
    "fedasync",
    AlgorithmKind(
        id="fedasync",
        summary="each arrival is mixed into the server's parameters at once",
        driver="arrivals",
        build=build,
        knobs={
            "local_steps": LOCAL_STEPS,
            "mix": Knob(0.6, 0.0, 1.0, "α: share of a fresh arrival"),
            "staleness_exponent": Knob(0.5, 0.0, 10.0, "an upload s server steps late mixes with α·(1 + s)^−exponent"),
            "proximal": Knob(0.005, 0.0, 1e6, "ρ: pull of local steps towards what was fetched"),
            "max_staleness": Knob(None, 0, 1_000_000, "uploads that are later are thrown away; absent: none"),
            "concurrency": CONCURRENCY,
            "timeout_s": TIMEOUT_S,
        },
        family="fl-edge",
        source="Xie et al. 2019 (arXiv 1903.03934), algorithm 1",
    ),
)
