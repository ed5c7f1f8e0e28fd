"""DeepConf: chains whose confidence falls below that of a warm-up end, and do not vote.

The lowest confidence of a group of tokens in a few full chains gives the threshold.

What it costs: log probabilities, which engines compute anyway.

Source: Fu et al. 2025 (arXiv 2508.15260).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="deepconf",
    family="decode-tts",
    summary="chains of low confidence end early and do not vote",
    paper=Paper(
        "Deep Think with Confidence",
        2025,
        "https://arxiv.org/abs/2508.15260",
        "Fu, Wang, Tian, Zhao",
        "arXiv 2508.15260",
    ),
    levels=("programs",),
    status="partial",
    missing="confidence is normal with a stated separation, not that of a model; votes are not weighted by it",
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
    experiment="deepconf",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
