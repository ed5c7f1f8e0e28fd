"""Eager DiLoCo: a round does not wait for the exchange of the one before.

The exchange of a round overlaps the whole next one. At the end of a round a worker applies its own share at once and
the others' of the round before, so that only the others are late.

What it costs: loss, between that of DiLoCo and that of outer gradients which are late as a whole.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY

TECHNIQUE = Technique(
    id="eager-diloco",
    algorithm="eager-diloco",
    knobs={
        "period": Knob(30, 1, 1000000, doc="H: local steps of a round"),
        "rounds": Knob(1, 1, 64, doc="rounds until the others' differences have arrived"),
        "outer_lr": Knob(0.7, 0.0, 10.0, doc="outer learning rate"),
        "outer_momentum": Knob(0.9, 0.0, 0.999999, doc="outer momentum"),
    },
    edits=(("learning", "algorithm eager-diloco"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
