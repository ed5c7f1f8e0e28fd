"""SparseLoCo: the largest entries of each chunk of the outer gradient, in two bits.

What is not sent is kept and added to the next difference; this memory stands in for the outer momentum. Values and
positions are gathered, and bytes fall by a hundred beside a dense exchange.

What it costs: a memory of the model's size on each worker, and loss where rounds are few.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="sparseloco",
    algorithm="sparseloco",
    knobs={
        "period": Knob(15, 1, 1000000, doc="H: local steps of a round"),
        "outer_lr": Knob(1.0, 0.0, 10.0, doc="outer learning rate"),
        "feedback": Knob(0.999, 0.0, 1.0, doc="share of what a message leaves out that is added to the next one"),
    },
    edits=(("learning", "algorithm sparseloco"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=limits_of({"period": 1}, {"learning": {"layers": 64, "link": {"bandwidth": "1 Tb/s", "latency": 0}}}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
