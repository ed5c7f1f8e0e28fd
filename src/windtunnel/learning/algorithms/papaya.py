"""Papaya: buffered asynchronous aggregation of a fleet of phones; differences weighted by samples and staleness.

Phones that take longer than a time-out are given up, and uploads that are too late are thrown away.

Source: Huba et al. 2022 (arXiv 2111.04877), sections 4 and 6; Nguyen et al. 2022 for the buffer.
"""

from __future__ import annotations

from math import inf
from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Rules, Upload
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import Buffered, chosen, polynomial, upload_of
from windtunnel.learning.algorithms.fedbuff import KNOBS
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Buffered:
    """A ← a − ν·Σ w·d / Σ w over each K arrivals, w = samples·(1 + s)^−½."""
    del job
    by_staleness = polynomial(knobs["staleness_exponent"])

    def weight(upload: Upload) -> float:
        return by_staleness(upload) * (upload.samples if knobs["by_samples"] else 1.0)

    who = chosen(knobs["concurrency"])
    return Buffered(
        rules=Rules(who=who, timeout_s=knobs["timeout_s"] or inf, **upload_of("papaya", knobs, who)),
        local_steps=knobs["local_steps"],
        buffer=knobs["buffer"],
        outer=Average(knobs["server_lr"]),
        weight=weight,
        normalised=True,
        max_staleness=knobs["max_staleness"],
    )


ALGORITHMS.add(
    "papaya",
    AlgorithmKind(
        id="papaya",
        summary="buffered asynchronous aggregation, weighted by samples and staleness",
        driver="arrivals",
        build=build,
        knobs={**KNOBS, "by_samples": Knob(True, doc="weights grow with the worker's samples")},
        family="fl-edge",
        source="Huba et al. 2022 (arXiv 2111.04877), sections 4 and 6",
        deviates="the production server steps with Adam; here it goes `server_lr` of the way",
    ),
)
