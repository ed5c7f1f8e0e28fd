"""DAEF: an autoencoder that is solved, not trained.

Each layer is a least-squares problem of which every node sends a triangular factor and products; what is merged is the
solution that a centre with all data would find, after one round.

What it costs: random hidden layers, so a larger error than training by gradients; double precision.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="daef",
    algorithm="daef",
    knobs={
        "penalty": Knob(0.01, 1e-12, 1000000000000.0, doc="of the squares of weights in each least-squares problem"),
    },
    edits=(("learning", "algorithm daef"),),
    saves="network",
    resource="scale-out",
    quality="the error of random hidden layers; none by merging",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
