"""DeepConf: chains whose confidence falls below that of a warm-up end, and do not vote.

The lowest confidence of a group of tokens in a few full chains gives the threshold.

What it costs: log probabilities, which engines compute anyway.

Source: Fu et al. 2025 (arXiv 2508.15260).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="deepconf",
    strategy="early_stop",
    knobs={
        "n": Knob(256, 2, 10_000, doc="chains of each problem"),
        "rule": Knob("confidence", choices=("confidence",), doc="what ends them"),
        "interval": Knob(2048, 1, 1_000_000, doc="tokens of a group"),
        "keep": Knob(0.1, 0.0, 1.0, doc="share of the warm-up above the threshold"),
    },
    edits=(("programs", "strategy early_stop"),),
    saves="tokens of chains that end wrong",
    resource="compute",
    quality=ASSUMED,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
