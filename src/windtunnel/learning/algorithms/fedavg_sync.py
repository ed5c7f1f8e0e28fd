"""Synchronous federated averaging on the clock: of m·(1 + o) workers the first m are averaged, the rest given up.

The rival of asynchronous algorithms. Where everyone is asked and waited for it is `fedavg`, whose curves need no clock.

Source: McMahan et al. 2017, algorithm 1; Bonawitz et al. 2019 (arXiv 1902.01046), section 2.2, for over-selection.
"""

from __future__ import annotations

from math import inf
from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Rules
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import LOCAL_STEPS, TIMEOUT_S, UPLOAD, chosen, upload_of
from windtunnel.learning.algorithms.synchronous import Synchronous
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Synchronous:
    """Rounds of the first `active` uploads."""
    return Synchronous(
        rules=rules_of_rounds("fedavg-sync", knobs),
        local_steps=knobs["local_steps"],
        needed=knobs["active"] or job.workers,
        outer=Average(knobs["server_lr"]),
        by_samples=knobs["by_samples"],
    )


def rules_of_rounds(id: str, knobs: dict[str, Any]) -> Rules:
    """What `KNOBS` of synchronous rounds say, for the algorithm `id`."""
    who = chosen(knobs["active"], knobs["over_selection"])
    return Rules(
        who=who,
        starts="together",
        keeps_inner=knobs["keep_inner"],
        timeout_s=knobs["timeout_s"] or inf,
        **upload_of(id, knobs, who),
    )


KNOBS = {
    "local_steps": LOCAL_STEPS,
    "active": Knob(0, 0, 100_000, "m: uploads that a round waits for; 0: those of all workers"),
    "over_selection": Knob(0.0, 0.0, 10.0, "o: m·(1 + o) workers are asked (1.3 in all is usual)"),
    "server_lr": Knob(1.0, 0.0, 10.0, "share of the way to the mean"),
    "by_samples": Knob(False, doc="differences are weighted by their workers' samples"),
    "keep_inner": Knob(False, doc="inner states stay with their workers from round to round"),
    "timeout_s": TIMEOUT_S,
    **UPLOAD,
}

ALGORITHMS.add(
    "fedavg-sync",
    AlgorithmKind(
        id="fedavg-sync",
        summary="rounds on the clock: the first m of m·(1 + o) workers are averaged",
        driver="arrivals",
        build=build,
        knobs=KNOBS,
        family="fl-edge",
        source="McMahan et al. 2017, algorithm 1; Bonawitz et al. 2019 (arXiv 1902.01046), section 2.2",
    ),
)
