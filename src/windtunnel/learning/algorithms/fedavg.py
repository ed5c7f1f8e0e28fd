"""FedAvg: sampled clients step alone on their own data, and the server takes their mean.

Clients beyond those that a round waits for, and rounds that the clock decides, are `fedavg-sync`.

Source: McMahan et al. 2017, Communication-efficient learning of deep networks from decentralized data, algorithm 1.
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms._federated import ACTIVE, BY_SAMPLES, LOCAL_STEPS, SERVER_LR, Federated
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob

KNOBS = {
    "local_steps": LOCAL_STEPS,
    "active": ACTIVE,
    "server_lr": SERVER_LR,
    "by_samples": BY_SAMPLES,
    "bits": Knob(32, choices=(16, 32, 64), doc="bits of an uploaded value where no compressor is named"),
    "compressor": Knob(None, doc="of uploads: id of a compressor, or {id: {knob: value}}"),
}


def federated(id: str, job: Job, knobs: dict[str, Any], proximal: float = 0.0) -> Federated:
    """Rounds of the job's inner optimizer, whose states begin afresh in each.

    Raises:
        BadInput: a compressor that needs feedback, which clients that are drawn now and then do not keep.
    """
    problems = parts.problems_of(id)
    upload = parts.compressor_of(knobs, problems)
    if upload.needs_feedback:
        problems.add(
            "compressor", upload.id, "needs feedback, which clients of a round do not keep; see scallion-scafcom"
        )
    problems.raise_if_any()
    return Federated(
        job=job,
        local_steps=knobs["local_steps"],
        outer=Average(knobs["server_lr"]),
        inner=job.inner,
        active=knobs["active"],
        proximal=proximal,
        by_samples=knobs["by_samples"],
        upload=upload,
    )


ALGORITHMS.add(
    "fedavg",
    AlgorithmKind(
        id="fedavg",
        summary="sampled clients step alone, the server takes their mean",
        build=lambda job, knobs: federated("fedavg", job, knobs),
        knobs=KNOBS,
        family="fl-edge",
        source="McMahan et al. 2017, algorithm 1",
    ),
)
