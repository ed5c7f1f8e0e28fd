"""CodeMonkeys: many trajectories over one context, votes by tests, then a selector.

The files of an issue are read once for all trajectories, whose prompts share them.

What it costs: trajectories, their tests, and the selection.

Source: Ehrlich et al. 2025 (arXiv 2501.14723).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="codemonkeys",
    strategy="solve_verify",
    knobs={
        "n": Knob(10, 1, 10000, doc="trajectories of each issue"),
        "verifications": Knob(1, 0, 10_000, doc="selections that read each"),
    },
    edits=(("programs", "strategy solve_verify"),),
    saves="wrong attempts",
    resource="compute",
    quality=ASSUMED,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
