"""One long chain that backtracks, or several short ones.

The same tokens in sequence or in parallel: what ends within its part, and what a checker finds.

What it costs: a long chain's latency, or the prompts of many.

Source: Qin et al. 2025 (arXiv 2504.07052).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="backtrack-or-not",
    strategy="backtrack",
    knobs={
        "n": Knob(1, 1, 100_000, doc="chains that share the budget"),
        "budget": Knob(16_384, 1, 1_000_000_000, doc="tokens of a problem"),
    },
    edits=(("programs", "strategy backtrack"),),
    saves="latency of long chains",
    resource="memory bandwidth",
    quality=ASSUMED,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
