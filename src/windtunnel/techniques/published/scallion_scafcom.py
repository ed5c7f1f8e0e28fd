"""SCALLION and SCAFCOM: controlled averaging with half the uplink.

From one vector a client sends, the server finds both its parameters and its control variate. The vector may be
compressed: without bias (SCALLION), or with momentum and any contraction (SCAFCOM).

What it costs: a control variate on each client.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="scallion-scafcom",
    algorithm="scallion-scafcom",
    knobs={
        "local_steps": Knob(10, 1, 1000000, doc="K: local steps of a round"),
        "active": Knob(0, 0, 100000, doc="m: clients of a round, drawn anew each time; 0: all"),
        "momentum": Knob(1.0, 1e-06, 1.0, doc="β: 1 is SCALLION, less is SCAFCOM"),
        "scaling": Knob(1.0, 1e-06, 1.0, doc="α: share of a control's change that is uploaded"),
    },
    edits=(("learning", "algorithm scallion-scafcom"),),
    saves="network",
    resource="scale-out",
    quality="none without compression: it is SCAFFOLD; compressed, as the compressor says",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
