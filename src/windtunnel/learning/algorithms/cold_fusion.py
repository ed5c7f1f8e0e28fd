"""ColD Fusion: contributors fine-tune the published model on data of their own, and the repository averages them.

Each iteration costs a contributor one model down and one up, and nothing else travels. Contributors count alike,
whatever data they have, and keep nothing from one iteration to the next.

Source: Don-Yehiya et al. 2023 (arXiv 2212.01378), section 2.
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms._federated import Federated
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Federated:
    """Iterations of the job's inner optimizer."""
    return Federated(
        job=job,
        local_steps=knobs["finetune_steps"],
        outer=Average(),
        inner=job.inner,
        active=knobs["contributors"],
        upload=Cast(knobs["bits"]),
    )


ALGORITHMS.add(
    "cold-fusion",
    AlgorithmKind(
        id="cold-fusion",
        summary="contributors fine-tune a published model, the repository averages them",
        build=build,
        knobs={
            "finetune_steps": Knob(50, 1, 1_000_000, "steps of a contributor in an iteration"),
            "contributors": Knob(0, 0, 100_000, "of an iteration, drawn anew each time; 0: all"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of an uploaded value"),
        },
        family="low-comm",
        source="Don-Yehiya et al. 2023 (arXiv 2212.01378), section 2",
    ),
)
