"""Streaming DiLoCo: parts of the model are exchanged in turn while training goes on.

A fragment of some layers leaves every few steps, so the peak on the link is that of a fragment. What comes back some
steps later is mixed with what the worker has become meanwhile, so nobody waits. Differences travel in four bits.

What it costs: as DiLoCo, and parameters that are some steps late.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY, limits_of

TECHNIQUE = Technique(
    id="streaming-diloco",
    algorithm="streaming-diloco",
    knobs={
        "period": Knob(100, 1, 1000000, doc="H: local steps of a round"),
        "fragments": Knob(2, 1, 100000, doc="parts of the model that are exchanged in turn"),
        "late": Knob(1, 0, 1000000, doc="local steps between sending a fragment and merging it"),
        "local_share": Knob(0.5, 0.0, 1.0, doc="alpha: share of a worker's own parameters that stays at a merge"),
    },
    edits=(("learning", "algorithm streaming-diloco"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    limits=limits_of({"period": 2, "fragments": 1, "late": 0}),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
