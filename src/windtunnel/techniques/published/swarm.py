"""SWARM: pipeline stages on pools of peers that come and go.

A micro-batch goes to some peer of the next stage, in proportion to how fast it has been; peers move to the stage that
is slowest. Compute grows faster with the hidden size than activations do, so slow links are enough for large models.

What it costs: exact gradients, and routing.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="swarm",
    family="low-comm",
    summary="pipeline stages served by pools of unreliable peers",
    paper=Paper(
        "SWARM Parallelism: Training Large Models Can Be Surprisingly Communication-Efficient",
        2023,
        "https://arxiv.org/abs/2301.11913",
        "Ryabinin, Dettmers, Diskin, Borzunov",
        "ICML 2023",
    ),
    levels=("learning",),
    status="partial",
    missing="peers that move between stages while training; routes are means over peers",
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
    experiment="swarm",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
