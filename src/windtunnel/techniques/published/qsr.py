"""QSR: rounds grow as the learning rate falls.

Local steps between two exchanges are (α/η)², at least a base: few while the learning rate is high and workers drift
apart quickly, many at the end of training.

What it costs: nothing beside local steps; most bytes are sent early.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="qsr",
    algorithm="qsr",
    knobs={
        "alpha": Knob(0.0175, 0.0, 1000000.0, doc="α: learning rate at which a round would have one step"),
        "base": Knob(4, 1, 1000000, doc="H_base: local steps of a round at least"),
    },
    edits=(("learning", "algorithm qsr"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=limits_of({"alpha": 1e-6, "base": 1}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
