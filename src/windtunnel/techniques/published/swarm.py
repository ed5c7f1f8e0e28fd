"""SWARM: pipeline stages on pools of peers that come and go.

A micro-batch goes to some peer of the next stage, in proportion to how fast it has been; peers move to the stage that
is slowest. Compute grows faster with the hidden size than activations do, so slow links are enough for large models.

What it costs: exact gradients, and routing.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="swarm",
    algorithm="swarm",
    knobs={
        "stages": Knob(1, 1, 100000, doc="stages of the pipeline, each served by workers/stages peers"),
        "boundary_bytes": Knob(
            0.0, 0.0, 1000000000000000.0, doc="bytes of a micro-batch's activations at a boundary of the target"
        ),
    },
    edits=(("learning", "algorithm swarm"),),
    saves="network",
    resource="scale-out",
    quality="results stay what they were",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
