"""MT-DAO: local Adam with momenta that remember longer than a round.

A fast momentum has forgotten the last exchange before the next one. A slow one carries what all workers agreed on
through the local steps; the step is a blend of the gradient and of momenta, each averaged at its own period.

What it costs: a state more for each slow momentum, and its bytes.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="mt-dao",
    algorithm="mt-dao",
    knobs={
        "period": Knob(32, 1, 1000000, doc="Kx: local steps between averages of parameters"),
        "period_u": Knob(None, 1, 1000000, doc="of momenta; absent: Kx"),
        "period_v": Knob(None, 1, 1000000, doc="of the second moment; absent: Kx"),
    },
    edits=(("learning", "algorithm mt-dao"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=limits_of({"period": 1}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
