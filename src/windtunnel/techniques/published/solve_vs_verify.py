"""Solve or verify: S solutions with V chains of verification each.

At the same tokens, more solutions and a vote stand against fewer ones that are verified.

What it costs: V calls for each solution.

Source: Singhi et al. 2025 (arXiv 2504.01005).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED, more_accurate

TECHNIQUE = Technique(
    id="solve-vs-verify",
    strategy="solve_verify",
    knobs={
        "n": Knob(8, 1, 10000, doc="solutions S of each problem"),
        "verifications": Knob(4, 0, 10_000, doc="chains V of each solution"),
        "correlation": Knob(0.3, 0.0, 0.999, doc="of two verdicts on one solution"),
    },
    edits=(("programs", "strategy solve_verify"),),
    saves="wrong attempts",
    resource="compute",
    quality=ASSUMED,
    limits=more_accurate(),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
