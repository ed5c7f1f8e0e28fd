"""Dynasor: chains of thought end when probes say that their answer stays.

A probe after every few tokens asks for the answer; equal answers in a row end the chain.

What it costs: a call for each probe, whose prompt is cached.

Source: Fu et al. 2024 (arXiv 2412.20993).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="dynasor-certaindex",
    strategy="early_stop",
    knobs={
        "n": Knob(1, 1, 10_000, doc="chains of each problem"),
        "rule": Knob("probe", choices=("probe", "likely", "certain"), doc="what ends them"),
        "interval": Knob(32, 1, 1_000_000, doc="tokens between probes"),
        "settles": Knob(0.5, 0.01, 0.99, doc="mean share of a chain after which its answer stays"),
    },
    edits=(("programs", "strategy early_stop"),),
    saves="tokens after the answer stays",
    resource="compute",
    quality=ASSUMED,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
