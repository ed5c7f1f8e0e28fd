"""Eager DiLoCo: the all-reduce of a round hides behind the whole next one.

Eager: a worker steps on its own fresh share now and on the others' of the round before, D = d_i/M + (⟨d⟩ − d_i/M) of
the round before, so anchors differ a little between workers. Delayed: everyone steps on the mean of the round before.

Source: Kale, Douillard and Donchev 2025 (arXiv 2502.12996).
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms._delayed import Delayed
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.diloco import KNOBS, outer_of
from windtunnel.learning.compose import ParameterExchange
from windtunnel.learning.job import Job
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Delayed:
    """Rounds of `period` steps whose outer gradients arrive `rounds` rounds later."""
    problems = parts.problems_of("eager-diloco")
    exchange = ParameterExchange(
        compressor=parts.compressor_of(knobs, problems),
        outer=outer_of(knobs),
        period=knobs["period"],
        late=knobs["rounds"] * knobs["period"],
        feedback=knobs["feedback"],
        via=parts.via_of(knobs),
    )
    parts.check_exchange(exchange, problems, knobs["may_stall"])
    if exchange.via == "ring" and knobs["mode"] == "eager":
        problems.add(
            "via", "ring", "leaves no worker's own share apart, which eager replaces; allowed: auto, all_gather"
        )
    problems.raise_if_any()
    return Delayed(job, parameters=exchange, rounds=knobs["rounds"], use=knobs["mode"])


ALGORITHMS.add(
    "eager-diloco",
    AlgorithmKind(
        id="eager-diloco",
        summary="DiLoCo whose workers go on at once, with their own share fresh and the others' a round late",
        build=build,
        knobs={
            "period": Knob(30, 1, 1_000_000, "H: local steps of a round"),
            "mode": Knob("eager", choices=("eager", "delayed"), doc="own share fresh, or all a round late"),
            "rounds": Knob(1, 1, 64, "rounds until the others' differences have arrived"),
            **{name: KNOBS[name] for name in ("outer", "outer_lr", "outer_momentum")},
            **parts.wire_knobs(),
        },
        family="low-comm",
        source="Kale, Douillard and Donchev 2025 (arXiv 2502.12996)",
    ),
)
