"""Compute-optimal test-time scaling: each problem's strategy by its difficulty.

Bins of estimated difficulty get best of n or beam search, of the sizes that pay most at a mean budget.

What it costs: an estimate of difficulty, which is not counted.

Source: Snell et al. 2024 (arXiv 2408.03314).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED, more_accurate

TECHNIQUE = Technique(
    id="compute-optimal-tts",
    strategy="compute_optimal",
    knobs={
        "n": Knob(16, 1, 1024, doc="attempts of a problem in the mean"),
        "bins": Knob(5, 1, 100, doc="bins of equal shares of problems"),
        "noise": Knob(0.5, 0.0, 10.0, doc="standard deviation of the estimate, in the logit of success"),
    },
    edits=(("programs", "strategy compute_optimal"),),
    saves="wrong attempts",
    resource="compute",
    quality=ASSUMED,
    limits=more_accurate(),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
