"""Large Language Monkeys: many attempts, of which a checker finds a right one.

Coverage, the share of problems that one of n attempts solves, follows from the spread of success over problems.

What it costs: n times the tokens, whose prompts share a prefix.

Source: Brown et al. 2024 (arXiv 2407.21787).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED, more_accurate

TECHNIQUE = Technique(
    id="large-language-monkeys",
    strategy="best_of_n",
    knobs={
        "n": Knob(16, 1, 100000, doc="attempts at each problem"),
        "selector": Knob("checker", choices=("checker", "majority", "verifier"), doc="who chooses"),
    },
    edits=(("programs", "strategy best_of_n"),),
    saves="wrong attempts",
    resource="compute",
    quality=ASSUMED,
    limits=more_accurate(),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
