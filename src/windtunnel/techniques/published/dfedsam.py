"""DFedSAM: sharpness-aware local steps and Q rounds of gossip.

Gradients are those at a point a little uphill, which finds flatter minima and keeps clients of unlike data closer;
Q gossip rounds bring λ^Q in place of λ.

What it costs: a gradient more in each step, and Q times the messages.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="dfedsam",
    family="fl-edge",
    summary="local steps towards flat minima, then several gossip rounds",
    paper=Paper(
        "Improving the Model Consistency of Decentralized Federated Learning",
        2023,
        "https://arxiv.org/abs/2302.04083",
        "Shi, Shen, Wei, Sun, Yuan, Wang, Tao",
        "ICML 2023",
    ),
    levels=("learning",),
    status="partial",
    missing="accuracies of its data sets",
    algorithm="dfedsam",
    knobs={
        "period": Knob(5, 1, 1000000, doc="K: local steps between exchanges"),
        "rounds": Knob(1, 1, 1000, doc="Q: averages of an exchange"),
        "rho": Knob(0.05, 0.0, 100.0, doc="ρ: how far the gradient is looked for, in the direction of ascent"),
    },
    edits=(("learning", "algorithm dfedsam"),),
    saves="network",
    resource="scale-out",
    quality="flatter minima; consensus falls as λ^Q",
    experiment="dfedsam",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
