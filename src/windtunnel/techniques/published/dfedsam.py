"""DFedSAM: sharpness-aware local steps and Q rounds of gossip.

Gradients are those at a point a little uphill, which finds flatter minima and keeps clients of unlike data closer;
Q gossip rounds bring λ^Q in place of λ.

What it costs: a gradient more in each step, and Q times the messages.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="dfedsam",
    algorithm="dfedsam",
    knobs={
        "period": Knob(5, 1, 1000000, doc="K: local steps between exchanges"),
        "rounds": Knob(1, 1, 1000, doc="Q: averages of an exchange"),
        "rho": Knob(0.05, 0.0, 100.0, doc="ρ: how far the gradient is looked for, in the direction of ascent"),
    },
    edits=(("learning", "algorithm dfedsam"),),
    saves="network",
    resource="scale-out",
    quality="flatter minima; consensus falls as λ^Q",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
