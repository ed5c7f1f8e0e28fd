"""MASHA: extra-gradient for games, in compressed differences.

Workers send compressed differences of operators at the point and at a reference that is refreshed now and then, so
that errors vanish with the distance.

What it costs: twice the operators of a step, and steps as compressors demand.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="masha",
    family="compression",
    summary="extra-gradient for games with compressed differences to a point that is refreshed rarely",
    paper=Paper(
        "Distributed Methods with Compressed Communication for Solving Variational Inequalities, "
        "with Theoretical Guarantees",
        2021,
        "https://arxiv.org/abs/2110.03313",
        "Beznosikov, Richtárik, Diskin, Ryabinin, Gasnikov",
        "NeurIPS 2022",
    ),
    levels=("learning",),
    status="partial",
    missing="the game is bilinear and strongly monotone; no adversarial network is trained",
    algorithm="masha",
    knobs={
        "refresh": Knob(0.0, 0.0, 1.0, doc="1 − τ: probability of a refresh; 0: the share of bytes that a message has"),
    },
    edits=(("learning", "algorithm masha"),),
    saves="network",
    resource="scale-out",
    quality="none where compressors are unbiased: it converges to the same point",
    experiment="masha",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
