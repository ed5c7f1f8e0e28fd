"""CO2: the mean of a round is used at the end of the next one, with a penalty of the gap and a clipped momentum.

b ← μb + (a − ⟨x⟩ of the round before)/Λ; a ← a − νb; x ← a. The average hides behind a whole round: what is exposed of
it is max(0, T − H·step).

Source: Sun et al. 2024 (arXiv 2401.16265); public code: fairscale-CO2 at 55aaca5.
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms._delayed import Delayed, Use
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import ParameterExchange
from windtunnel.learning.job import Job
from windtunnel.learning.outer.heavy_ball import HeavyBall
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Delayed:
    """One round late; the clip cuts only where it is not the public code's."""
    problems = parts.problems_of("co2")
    clip = 0.0 if knobs["public_clip"] else knobs["clip"]
    exchange = ParameterExchange(
        compressor=parts.compressor_of(knobs, problems),
        outer=HeavyBall(knobs["outer_lr"], knobs["outer_momentum"], knobs["gap_penalty"], clip),
        period=knobs["period"],
        late=knobs["period"],
        feedback=knobs["feedback"],
        via=parts.via_of(knobs),
    )
    parts.check_exchange(exchange, problems, knobs["may_stall"])
    problems.raise_if_any()
    use: Use = "against_now" if knobs["difference_to"] == "anchor_now" else "delayed"
    return Delayed(job, parameters=exchange, use=use)


ALGORITHMS.add(
    "co2",
    AlgorithmKind(
        id="co2",
        summary="local steps; the average of a round is merged at the end of the next, with heavy-ball momentum",
        build=build,
        knobs={
            "period": Knob(48, 1, 1_000_000, "H: local steps of a round"),
            "outer_lr": Knob(1.0, 0.0, 10.0, "outer learning rate"),
            "outer_momentum": Knob(0.2, 0.0, 0.999999, "outer momentum"),
            "gap_penalty": Knob(1.0, 1e-9, 1e9, "Λ: what a difference is divided by, a constant as in the public code"),
            "clip": Knob(0.0, 0.0, 1e9, "largest magnitude of an entry of the outer momentum; 0: none"),
            "public_clip": Knob(False, doc="the public code's clip: its result is not kept, so that nothing is cut"),
            "difference_to": Knob(
                "anchor_now",
                choices=("anchor_now", "anchor_then"),
                doc="anchor that the late mean is taken from: as it is now (public code), or as it was when sent",
            ),
            **parts.wire_knobs(),
        },
        family="low-comm",
        source="Sun et al. 2024 (arXiv 2401.16265)",
        deviates="fairscale-CO2 (55aaca5) clips into a copy that it drops: `public_clip`",
    ),
)
