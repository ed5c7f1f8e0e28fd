"""Local SGD of workers that fail and join: each round averages those that are there, and joiners copy the anchor.

With `outer_momentum` it is DiLoCo of an elastic set of workers. Where none fails it is `local_sgd` or `diloco`, whose
curves need no clock.

Source: Stich 2019 (arXiv 1805.09767), algorithm 1; Douillard et al. 2023 (arXiv 2311.08105), sections 3.1 (adaptive
compute) and 2.1 (outer Nesterov).
"""

from __future__ import annotations

from math import inf
from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Rules
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import TIMEOUT_S, UPLOAD, upload_of
from windtunnel.learning.algorithms.synchronous import Synchronous
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.learning.outer.base import OuterOptimizer
from windtunnel.learning.outer.nesterov import Nesterov
from windtunnel.learning.participation.everyone import Everyone
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Synchronous:
    """Rounds of all that live; states of the inner optimizer stay with those that do."""
    momentum = knobs["outer_momentum"]
    outer: OuterOptimizer = Nesterov(knobs["outer_lr"], momentum) if momentum else Average(knobs["outer_lr"])
    return Synchronous(
        rules=Rules(
            starts="together",
            keeps_inner=True,
            timeout_s=knobs["timeout_s"] or inf,
            **upload_of("elastic-local-sgd", knobs, Everyone()),
        ),
        local_steps=knobs["period"],
        needed=job.workers,
        outer=outer,
    )


ALGORITHMS.add(
    "elastic-local-sgd",
    AlgorithmKind(
        id="elastic-local-sgd",
        summary="local SGD (or DiLoCo) whose workers fail, come back and join late",
        driver="arrivals",
        build=build,
        knobs={
            "period": Knob(100, 1, 1_000_000, "H: local steps of a round"),
            "outer_lr": Knob(1.0, 0.0, 10.0, "outer learning rate"),
            "outer_momentum": Knob(0.0, 0.0, 0.999999, "outer momentum; 0: plain averaging"),
            **UPLOAD,
            "timeout_s": TIMEOUT_S,
        },
        family="fault-straggler",
        source="Stich 2019 (arXiv 1805.09767), algorithm 1; Douillard et al. 2023, section 3.1",
    ),
)
