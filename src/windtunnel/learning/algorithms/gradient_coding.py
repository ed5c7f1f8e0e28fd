"""Gradient coding: shards repeated on `late` + 1 workers, so that any others tell the exact sum.

Source: Tandon et al. 2017 (arXiv 1612.03301).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.aggregators.gradient_codes import cyclic, repetition
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms._coded import CodedGradients
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.job import Job
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> CodedGradients:
    """Refuses more late workers than there are, and repetition where groups do not come out even."""
    problems, n, late = parts.problems_of("gradient-coding"), job.workers, knobs["late"]
    if late >= n:
        problems.add("late", late, f"has to leave a worker that answers; allowed: 0 to {n - 1}")
    elif knobs["scheme"] == "repetition" and n % (late + 1):
        problems.add("late", late, f"repetition needs late + 1 to divide the {n} workers; allowed: `scheme: cyclic`")
    problems.raise_if_any()
    code = cyclic(n, late, job.draws) if knobs["scheme"] == "cyclic" else repetition(n, late)
    return CodedGradients(job, code=code, late=late)


ALGORITHMS.add(
    "gradient-coding",
    AlgorithmKind(
        id="gradient-coding",
        summary="combinations of shards' gradients, of which any but some tell the exact sum",
        build=build,
        knobs={
            "late": Knob(1, 0, 100_000, "s: workers that are not waited for; each computes late + 1 shards"),
            "scheme": Knob("cyclic", choices=("cyclic", "repetition"), doc="which shards a worker holds"),
        },
        family="fault-straggler",
        source="Tandon et al. 2017 (arXiv 1612.03301)",
    ),
)
