"""DiLoCo: many local AdamW steps on each worker, then one exchange of how far all have moved.

Workers are islands that are joined by slow links. Each trains on its own shard; after some hundred steps the mean of
what they have moved is stepped on by Nesterov's momentum, and all continue from there. Bytes fall by the number of
local steps.

What it costs: parameters and a momentum more on each worker, an exchange that nothing hides, and loss, slowly, as
rounds grow longer.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="diloco",
    family="low-comm",
    summary="hundreds of local steps, then Nesterov's momentum over the mean difference to the anchor",
    paper=Paper(
        "DiLoCo: Distributed Low-Communication Training of Language Models",
        2023,
        "https://arxiv.org/abs/2311.08105",
        "Douillard, Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam, Shen",
        "arXiv 2311.08105",
    ),
    levels=("learning",),
    algorithm="diloco",
    knobs={
        "period": Knob(100, 1, 1000000, doc="H: local steps of a round"),
        "outer_lr": Knob(0.7, 0.0, 10.0, doc="outer learning rate"),
        "outer_momentum": Knob(0.9, 0.0, 0.999999, doc="outer momentum"),
        "drop": Knob(0.0, 0.0, 1.0, doc="probability that a worker's difference is lost; it goes on from where it is"),
    },
    edits=(("learning", "algorithm diloco"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    experiment="diloco",
    limits=limits_of({"period": 1}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
