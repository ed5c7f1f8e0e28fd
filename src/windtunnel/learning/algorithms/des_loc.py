"""DES-LOC: parameters and both moments of Adam are averaged at periods of their own.

Slow states need fewer averages: a half-life of β 0.95 is 13.5 steps, that of 0.9999 is 6,931. Bytes of a step are
1/Kx + 1/Ku + 1/Kv of data parallelism's.

Source: Iacob et al. 2025 (arXiv 2505.22549); gradients are cut entry by entry.
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, ParameterExchange, StateExchange
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Local Adam with three periods; absent ones are 3 Kx for m and 6 Kx for v."""
    problems = parts.problems_of("des-loc")
    parts.check_states(("m", "v"), job, problems)
    problems.raise_if_any()
    wire, k = Cast(knobs["bits"]), knobs["period"]
    periods = {"m": knobs["period_m"] or 3 * k, "v": knobs["period_v"] or 6 * k}
    exchange = ParameterExchange(
        compressor=wire,
        outer=Average(1.0),
        period=k,
        states=tuple(StateExchange(name=name, period=each, compressor=wire) for name, each in periods.items()),
        evaluate="mean",
    )
    return Composed(job, parameters=exchange, clip=knobs["clip"])


ALGORITHMS.add(
    "des-loc",
    AlgorithmKind(
        id="des-loc",
        summary="local Adam steps; parameters and moments are averaged at periods of their own",
        build=build,
        knobs={
            "period": Knob(256, 1, 1_000_000, "Kx: local steps between averages of parameters"),
            "period_m": Knob(None, 1, 1_000_000, "Ku: of first moments; absent: 3 Kx"),
            "period_v": Knob(None, 1, 1_000_000, "Kv: of second moments; absent: 6 Kx"),
            "clip": Knob(1.0, 0.0, 1e9, "largest magnitude of an entry of a gradient; 0: none"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
        },
        family="low-comm",
        source="Iacob et al. 2025 (arXiv 2505.22549)",
    ),
)
