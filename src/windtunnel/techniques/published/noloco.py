"""NoLoCo: each worker averages with one partner a round, drawn anew.

An exchange is one message between two, and nobody waits for the slowest path of all. A momentum pulls anchors
together, so that workers stay close without ever being equal.

What it costs: workers that differ a little; loss near that of DiLoCo.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="noloco",
    algorithm="noloco",
    knobs={
        "period": Knob(100, 1, 1000000, doc="H: local steps of a round"),
        "outer_lr": Knob(0.7, 0.0, 10.0, doc="ν: outer learning rate"),
        "outer_momentum": Knob(0.3, 0.0, 0.999999, doc="μ: outer momentum"),
    },
    edits=(("learning", "algorithm noloco"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=limits_of({"period": 1}, {"learning": {"link": {"bandwidth": "10 Gb/s", "latency": 0}, "workers": 2}}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
