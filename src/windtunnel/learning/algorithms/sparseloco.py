"""SparseLoCo: DiLoCo whose differences pass error feedback, chunk-wise top-k and two bits, in place of momentum.

e ← βe + d; q = C(e); e ← e − q; a ← a − ν⟨q⟩.

Source: Sarfi et al. 2025 (arXiv 2508.15706).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, ParameterExchange
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Plain outer steps on what is left of the differences."""
    problems = parts.problems_of("sparseloco")
    exchange = ParameterExchange(
        compressor=parts.compressor_of(knobs, problems),
        outer=Average(knobs["outer_lr"]),
        period=knobs["period"],
        feedback=knobs["feedback"],
        via=parts.via_of(knobs),
    )
    parts.check_exchange(exchange, problems, knobs["may_stall"])
    problems.raise_if_any()
    return Composed(job, parameters=exchange)


ALGORITHMS.add(
    "sparseloco",
    AlgorithmKind(
        id="sparseloco",
        summary="local steps; one to three per cent of the difference travels in two bits, the rest waits",
        build=build,
        knobs={
            "period": Knob(15, 1, 1_000_000, "H: local steps of a round"),
            "outer_lr": Knob(1.0, 0.0, 10.0, "outer learning rate"),
            **parts.wire_knobs(compressor={"chain": {"fraction": 0.02, "chunk": 4096, "bits": 2}}, feedback=0.999),
        },
        family="low-comm",
        source="Sarfi et al. 2025 (arXiv 2508.15706)",
    ),
)
