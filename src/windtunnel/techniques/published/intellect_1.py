"""INTELLECT-1: DiLoCo over three continents with eight-bit rings.

Rounds of 100 steps, differences of eight bits that are encoded anew at each hop of a ring: 400 times less than dense
gradients of every step.

What it costs: as DiLoCo, and rounding at each hop.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="intellect-1",
    algorithm="intellect-1",
    knobs={
        "period": Knob(100, 1, 1000000, doc="H: local steps of a round"),
        "outer_lr": Knob(0.7, 0.0, 10.0, doc="outer learning rate"),
        "outer_momentum": Knob(0.9, 0.0, 0.999999, doc="outer momentum"),
    },
    edits=(("learning", "algorithm intellect-1"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=limits_of({"period": 1}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
