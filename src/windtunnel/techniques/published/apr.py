"""Adaptive parallel reasoning: children with contexts of their own, of which short results come back.

Source: Pan et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="apr",
    strategy="apr",
    knobs={
        "children": Knob(6.1, 0.0, 1000.0, doc="mean threads of a problem"),
        "child_tokens": Knob(1471.0, 1.0, 10000000.0, doc="mean tokens of a child"),
    },
    edits=(("programs", "strategy apr"),),
    saves="decode steps one after the other",
    resource="memory bandwidth",
    quality="measured on Countdown alone",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
