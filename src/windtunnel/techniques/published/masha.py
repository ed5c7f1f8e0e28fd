"""MASHA: extra-gradient for games, in compressed differences.

Workers send compressed differences of operators at the point and at a reference that is refreshed now and then, so
that errors vanish with the distance.

What it costs: twice the operators of a step, and steps as compressors demand.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="masha",
    algorithm="masha",
    knobs={
        "refresh": Knob(0.0, 0.0, 1.0, doc="1 − τ: probability of a refresh; 0: the share of bytes that a message has"),
    },
    edits=(("learning", "algorithm masha"),),
    saves="network",
    resource="scale-out",
    quality="none where compressors are unbiased: it converges to the same point",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
