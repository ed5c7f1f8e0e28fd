"""DiLoCo: many AdamW steps a worker, then Nesterov's momentum over the mean of what the workers have moved.

Fragments, a late merge, a share of one's own parameters and compressors make it the streaming and the sparse ones;
those have files of their own with the defaults of their papers.

Source: Douillard et al. 2023 (arXiv 2311.08105); a worker whose outer gradient is lost goes on from where it is.
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed, ParameterExchange
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.learning.outer.base import OuterOptimizer
from windtunnel.learning.outer.heavy_ball import HeavyBall
from windtunnel.learning.outer.nesterov import Nesterov
from windtunnel.techniques.knobs import Knob


def outer_of(knobs: dict[str, Any]) -> OuterOptimizer:
    """The outer optimizer that knobs name."""
    lr, momentum = knobs["outer_lr"], knobs["outer_momentum"]
    match knobs["outer"]:
        case "average":
            return Average(lr)
        case "heavy_ball":
            return HeavyBall(lr, momentum)
    return Nesterov(lr, momentum)


def build(job: Job, knobs: dict[str, Any], id: str = "diloco") -> Composed:
    """Rounds of `period` local steps; inner states stay with their workers."""
    problems = parts.problems_of(id)
    exchange = ParameterExchange(
        compressor=parts.compressor_of(knobs, problems),
        outer=outer_of(knobs),
        period=knobs["period"],
        fragments=knobs["fragments"],
        late=knobs["late"],
        lead=knobs["lead"],
        layerwise=knobs["layerwise"],
        local_share=knobs["local_share"],
        feedback=knobs["feedback"],
        via=parts.via_of(knobs),
        drop=knobs["drop"],
    )
    parts.check_exchange(exchange, problems, knobs["may_stall"])
    parts.check_fragments(exchange, job, problems)
    problems.raise_if_any()
    return Composed(job, parameters=exchange)


KNOBS = {
    "period": parts.PERIOD,
    "outer": Knob("nesterov", choices=("nesterov", "heavy_ball", "average"), doc="outer optimizer"),
    "outer_lr": parts.OUTER_LR,
    "outer_momentum": parts.OUTER_MOMENTUM,
    "fragments": Knob(1, 1, 100_000, "parts of the model that are exchanged in turn"),
    "late": Knob(0, 0, 1_000_000, "local steps between sending a fragment and merging it"),
    "lead": Knob(False, doc="send `late` steps before a fragment's place and merge there, as torchft does"),
    "layerwise": Knob(False, doc="each layer leaves when the last backward of a round has passed it, on the clock"),
    "local_share": Knob(0.0, 0.0, 1.0, "alpha: share of a worker's own parameters that stays at a merge"),
    "drop": Knob(0.0, 0.0, 1.0, "probability that a worker's difference is lost; it goes on from where it is"),
    **parts.wire_knobs(),
}

ALGORITHMS.add(
    "diloco",
    AlgorithmKind(
        id="diloco",
        summary="local AdamW steps, then Nesterov's momentum over the mean difference to the anchor",
        build=build,
        knobs=KNOBS,
        family="low-comm",
        source="Douillard et al. 2023 (arXiv 2311.08105)",
        deviates="the DiLoCo in NoLoCo's public code (a1b4a42) calls heavy-ball momentum Nesterov's: `outer`",
    ),
)
