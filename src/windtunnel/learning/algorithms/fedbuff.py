"""FedBuff: workers never wait; the server steps whenever K differences have arrived, late ones weighted down.

Source: Nguyen et al. 2022 (arXiv 2106.06639), algorithm 1.
"""

from __future__ import annotations

from math import inf
from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Rules
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import (
    CONCURRENCY,
    LOCAL_STEPS,
    TIMEOUT_S,
    UPLOAD,
    Buffered,
    chosen,
    polynomial,
    upload_of,
)
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Buffered:
    """A ← a − ν·mean of (1 + s)^−½·d over each K arrivals."""
    del job
    who = chosen(knobs["concurrency"])
    return Buffered(
        rules=Rules(who=who, timeout_s=knobs["timeout_s"] or inf, **upload_of("fedbuff", knobs, who)),
        local_steps=knobs["local_steps"],
        buffer=knobs["buffer"],
        outer=Average(knobs["server_lr"]),
        weight=polynomial(knobs["staleness_exponent"]),
        max_staleness=knobs["max_staleness"],
    )


KNOBS = {
    "local_steps": LOCAL_STEPS,
    "buffer": Knob(10, 1, 100_000, "K: arrivals of one server step"),
    "concurrency": CONCURRENCY,
    "server_lr": Knob(1.0, 0.0, 10.0, "ν: share of the way along the mean difference"),
    "staleness_exponent": Knob(0.5, 0.0, 10.0, "an upload s server steps late weighs (1 + s)^−exponent"),
    "max_staleness": Knob(None, 0, 1_000_000, "uploads that are later are thrown away; absent: none"),
    "timeout_s": TIMEOUT_S,
    **UPLOAD,
}

ALGORITHMS.add(
    "fedbuff",
    AlgorithmKind(
        id="fedbuff",
        summary="the server steps at every K arrivals; late differences weigh less",
        driver="arrivals",
        build=build,
        knobs=KNOBS,
        family="fl-edge",
        source="Nguyen et al. 2022 (arXiv 2106.06639), algorithm 1",
    ),
)
