"""MCTS for preference learning: trees whose steps become pairs of preferences.

Rollouts follow one another; each expands a step and evaluates its children by calls.

What it costs: rollouts in a row, and training, which `windtunnel train` counts.

Source: Xie et al. 2024 (arXiv 2405.00451).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="mcts-dpo",
    strategy="mcts",
    knobs={
        "n": Knob(16, 1, 2000, doc="rollouts, one after another"),
        "branching": Knob(4, 1, 64, doc="steps that an expansion tries"),
        "steps": Knob(8, 1, 100, doc="steps of an answer"),
    },
    edits=(("programs", "strategy mcts"),),
    saves="wrong attempts",
    resource="compute",
    quality=ASSUMED,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
