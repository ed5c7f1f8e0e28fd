"""A federated testbed over 5G, WiFi and Ethernet: where the seconds of a round go.

A synchronous round downloads, trains, uploads and aggregates; the slowest client ends it, and uploads meet in the cell.

What it costs: nothing; it is a measurement.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="fl-5g-testbed",
    algorithm="fl-5g-testbed",
    knobs={
        "local_steps": Knob(10, 1, 1000000, doc="local steps of a round"),
        "active": Knob(0, 0, 100000, doc="m: uploads that a round waits for; 0: those of all workers"),
        "aggregation_s": Knob(0.0, 0.0, 1000000.0, doc="seconds of adding up the uploads of a round"),
    },
    edits=(("learning", "algorithm fl-5g-testbed"),),
    saves="network",
    resource="scale-out",
    quality="",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
