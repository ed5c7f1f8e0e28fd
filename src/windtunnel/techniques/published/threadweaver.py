"""ThreadWeaver: threads of an answer as requests of their own, joined as text.

The parent's text is found in the prefix cache, the threads' text is computed again at the join.

Source: Lian et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="threadweaver",
    strategy="threads",
    knobs={
        "width": Knob(4, 1, 1000, doc="threads of a block"),
        "parallel": Knob(0.5, 0.0, 1.0, doc="share of an answer's tokens that threads write"),
    },
    edits=(("programs", "strategy threads"),),
    saves="decode steps one after the other",
    resource="memory bandwidth",
    quality="accuracy within 1.5 points of serial answers on its own tasks",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
