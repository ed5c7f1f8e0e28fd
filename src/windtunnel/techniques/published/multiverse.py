"""Multiverse: parallel branches whose KV the parent takes over.

Source: Yang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="multiverse",
    strategy="multiverse",
    knobs={
        "width": Knob(4, 1, 1000, doc="threads of a block"),
        "parallel": Knob(0.5, 0.0, 1.0, doc="share of an answer's tokens that threads write"),
    },
    edits=(("programs", "strategy multiverse"),),
    saves="decode steps one after the other",
    resource="memory bandwidth",
    quality="measured on its own benchmark alone",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
