"""R2E-Gym: trajectories ranked by two verifiers whose errors differ.

Verifiers that run tests and verifiers that read trajectories err on different ones: their sum is worth more than each.

What it costs: tests and calls of a verifier for each trajectory.

Source: Jain et al. 2025 (arXiv 2504.07164).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="r2e-gym-hybrid-tts",
    strategy="best_of_n",
    knobs={
        "n": Knob(26, 1, 100000, doc="trajectories of each problem"),
        "selector": Knob("verifier", choices=("verifier",), doc="who chooses"),
    },
    edits=(("programs", "strategy best_of_n"),),
    saves="wrong attempts",
    resource="compute",
    quality=ASSUMED,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
