"""DeToNATION: full averages inside nodes, the fast-moving part of momentum between them.

Momentum is cut into chunks and turned by a cosine transform; the largest coefficients are sent and taken out of the
momentum, the rest stays. Steps follow the sign of the sum.

What it costs: a transform in each step, momenta that differ between nodes, and loss.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY

TECHNIQUE = Technique(
    id="detonation",
    algorithm="detonation",
    knobs={
        "node": Knob(1, 1, 100000, doc="workers of a node, which average gradients in full"),
        "chunk": Knob(64, 1, 4096, doc="side of a chunk of coefficients"),
        "k": Knob(32, 1, 16777216, doc="coefficients that are sent of a chunk"),
        "decay": Knob(0.999, 0.0, 0.999999, doc="β: decay of the momentum"),
    },
    edits=(("learning", "algorithm detonation"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
