"""ColD Fusion: a base model that many fine-tune and one repository averages.

A contributor takes the base, fine-tunes it on data of its own and hands it back; the mean of all is the next base.

What it costs: a model down and a model up for each contribution.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY

TECHNIQUE = Technique(
    id="cold-fusion",
    algorithm="cold-fusion",
    knobs={
        "finetune_steps": Knob(50, 1, 1000000, doc="steps of a contributor in an iteration"),
        "contributors": Knob(0, 0, 100000, doc="of an iteration, drawn anew each time; 0: all"),
    },
    edits=(("learning", "algorithm cold-fusion"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
