"""Multiverse: parallel branches whose KV the parent takes over.

Source: Yang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="multiverse",
    family="decode-tts",
    summary="map, process and reduce in one engine, the KV of all branches kept",
    paper=Paper(
        "Multiverse: Your Language Models Secretly Decide How to Parallelize and Merge Generation",
        2025,
        "https://arxiv.org/abs/2506.09991",
        "Yang, An and others",
        "arXiv 2506.09991",
    ),
    levels=("programs",),
    status="partial",
    missing="how much of an answer may be parallel is a knob, not decided by the model",
    strategy="multiverse",
    knobs={
        "width": Knob(4, 1, 1000, doc="threads of a block"),
        "parallel": Knob(0.5, 0.0, 1.0, doc="share of an answer's tokens that threads write"),
    },
    edits=(("programs", "strategy multiverse"),),
    saves="decode steps one after the other",
    resource="memory bandwidth",
    quality="measured on its own benchmark alone",
    experiment="multiverse",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
