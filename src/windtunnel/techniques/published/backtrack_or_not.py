"""One long chain that backtracks, or several short ones.

The same tokens in sequence or in parallel: what ends within its part, and what a checker finds.

What it costs: a long chain's latency, or the prompts of many.

Source: Qin et al. 2025 (arXiv 2504.07052).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="backtrack-or-not",
    family="decode-tts",
    summary="a budget of tokens as one chain or as several",
    paper=Paper(
        "To Backtrack or Not to Backtrack: When Sequential Search Limits Model Reasoning",
        2025,
        "https://arxiv.org/abs/2504.07052",
        "Qin, Alvarez-Melis, Jelassi, Malach",
        "arXiv 2504.07052",
    ),
    levels=("programs",),
    status="partial",
    missing="chains find no more by backtracking than their lengths say",
    strategy="backtrack",
    knobs={
        "n": Knob(1, 1, 100_000, doc="chains that share the budget"),
        "budget": Knob(16_384, 1, 1_000_000_000, doc="tokens of a problem"),
    },
    edits=(("programs", "strategy backtrack"),),
    saves="latency of long chains",
    resource="memory bandwidth",
    quality=ASSUMED,
    experiment="backtrack_or_not",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
