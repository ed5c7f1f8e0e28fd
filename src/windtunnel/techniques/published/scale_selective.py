"""SCALE: easy sub-problems get short answers, hard ones long ones.

A first call cuts the problem up; a draw says which parts are easy.

What it costs: the call that cuts a problem up.

Source: Xiao et al. 2025 (arXiv 2512.00466).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="scale-selective",
    strategy="scale_selective",
    knobs={
        "steps": Knob(4, 1, 100, doc="sub-problems"),
        "easy": Knob(0.6, 0.0, 1.0, doc="share of them that are easy"),
        "short": Knob(0.2, 0.0, 1.0, doc="tokens of an easy one over those of a hard one"),
    },
    edits=(("programs", "strategy scale_selective"),),
    saves="tokens of easy steps",
    resource="compute",
    quality=ASSUMED,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
