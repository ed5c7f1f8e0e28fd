"""Adaptive parallel reasoning: children with contexts of their own, of which short results come back.

Source: Pan et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="apr",
    family="decode-tts",
    summary="a parent spawns children and joins their short results",
    paper=Paper(
        "Learning Adaptive Parallel Reasoning with Language Models",
        2025,
        "https://arxiv.org/abs/2504.15466",
        "Pan, Li and others",
        "arXiv 2504.15466",
    ),
    levels=("programs",),
    status="partial",
    missing="children and their lengths are drawn, not decided by a model; its accuracy is measured on one task",
    strategy="apr",
    knobs={
        "children": Knob(6.1, 0.0, 1000.0, doc="mean threads of a problem"),
        "child_tokens": Knob(1471.0, 1.0, 10000000.0, doc="mean tokens of a child"),
    },
    edits=(("programs", "strategy apr"),),
    saves="decode steps one after the other",
    resource="memory bandwidth",
    quality="measured on Countdown alone",
    experiment="apr",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
