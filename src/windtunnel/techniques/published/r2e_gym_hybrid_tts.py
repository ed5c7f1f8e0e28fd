"""R2E-Gym: trajectories ranked by two verifiers whose errors differ.

Verifiers that run tests and verifiers that read trajectories err on different ones: their sum is worth more than each.

What it costs: tests and calls of a verifier for each trajectory.

Source: Jain et al. 2025 (arXiv 2504.07164).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="r2e-gym-hybrid-tts",
    family="decode-tts",
    summary="best of n by two kinds of verifiers",
    paper=Paper(
        "R2E-Gym: Procedural Environments and Hybrid Verifiers for Scaling Open-Weights SWE Agents",
        2025,
        "https://arxiv.org/abs/2504.07164",
        "Jain, Singh, Shetty, Zheng, Sen, Stoica",
        "arXiv 2504.07164",
    ),
    levels=("programs",),
    status="partial",
    missing="both verifiers are one separation; their correlation is fitted, and containers are not simulated",
    strategy="best_of_n",
    knobs={
        "n": Knob(26, 1, 100000, doc="trajectories of each problem"),
        "selector": Knob("verifier", choices=("verifier",), doc="who chooses"),
    },
    edits=(("programs", "strategy best_of_n"),),
    saves="wrong attempts",
    resource="compute",
    quality=ASSUMED,
    experiment="r2e_gym_hybrid_tts",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
