"""MCTS for preference learning: trees whose steps become pairs of preferences.

Rollouts follow one another; each expands a step and evaluates its children by calls.

What it costs: rollouts in a row, and training, which `windtunnel train` counts.

Source: Xie et al. 2024 (arXiv 2405.00451).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="mcts-dpo",
    family="decode-tts",
    summary="Monte Carlo tree search with self-evaluation",
    paper=Paper(
        "Monte Carlo Tree Search Boosts Reasoning via Iterative Preference Learning",
        2024,
        "https://arxiv.org/abs/2405.00451",
        "Xie, Goyal, Zheng, Kan, Lillicrap, Kawaguchi, Shieh",
        "arXiv 2405.00451",
    ),
    levels=("programs",),
    status="partial",
    missing="training on the pairs, and what it does to accuracy",
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
    experiment="mcts_dpo",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
