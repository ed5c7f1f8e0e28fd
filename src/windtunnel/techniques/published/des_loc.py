"""DES-LOC: parameters often, moments rarely.

Moments of Adam change as slowly as their half-lives say, so they are averaged at longer periods than parameters. The
bytes of a step are P/Kx + P/Ku + P/Kv, and workers that join find averaged moments.

What it costs: two more exchanges than DiLoCo, and clipped gradients.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="des-loc",
    algorithm="des-loc",
    knobs={
        "period": Knob(256, 1, 1000000, doc="Kx: local steps between averages of parameters"),
        "period_m": Knob(None, 1, 1000000, doc="Ku: of first moments; absent: 3 Kx"),
        "period_v": Knob(None, 1, 1000000, doc="Kv: of second moments; absent: 6 Kx"),
        "clip": Knob(1.0, 0.0, 1000000000.0, doc="largest magnitude of an entry of a gradient; 0: none"),
    },
    edits=(("learning", "algorithm des-loc"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=limits_of({"period": 1}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
