"""QSR: rounds grow as the learning rate falls.

Local steps between two exchanges are (α/η)², at least a base: few while the learning rate is high and workers drift
apart quickly, many at the end of training.

What it costs: nothing beside local steps; most bytes are sent early.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="qsr",
    family="low-comm",
    summary="rounds that grow with the inverse square of the learning rate",
    paper=Paper(
        "A Quadratic Synchronization Rule for Distributed Deep Learning",
        2023,
        "https://arxiv.org/abs/2310.14423",
        "Gu, Lyu, Arora, Zhang, Huang",
        "ICLR 2024",
    ),
    levels=("learning",),
    algorithm="qsr",
    knobs={
        "alpha": Knob(0.0175, 0.0, 1000000.0, doc="α: learning rate at which a round would have one step"),
        "base": Knob(4, 1, 1000000, doc="H_base: local steps of a round at least"),
    },
    edits=(("learning", "algorithm qsr"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    experiment="qsr",
    limits=limits_of({"alpha": 1e-6, "base": 1}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
