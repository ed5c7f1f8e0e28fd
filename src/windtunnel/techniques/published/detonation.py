"""DeToNATION: full averages inside nodes, the fast-moving part of momentum between them.

Momentum is cut into chunks and turned by a cosine transform; the largest coefficients are sent and taken out of the
momentum, the rest stays. Steps follow the sign of the sum.

What it costs: a transform in each step, momenta that differ between nodes, and loss.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.learning_limits import QUALITY

TECHNIQUE = Technique(
    id="detonation",
    family="low-comm",
    summary="between nodes only the largest cosine coefficients of momentum travel",
    paper=Paper(
        "DeToNATION: Decoupled Torch Network-Aware Training on Interlinked Online Nodes",
        2025,
        "https://arxiv.org/abs/2502.06728",
        "From, Nielsen, Galke, Schneider-Kamp",
        "arXiv 2502.06728",
    ),
    levels=("learning",),
    status="partial",
    missing=(
        "FSDP inside nodes is the target's own plan; replicators other than the cosine one are "
        "knobs of `windtunnel learn`"
    ),
    algorithm="detonation",
    knobs={
        "node": Knob(1, 1, 100000, doc="workers of a node, which average gradients in full"),
        "chunk": Knob(64, 1, 4096, doc="side of a chunk of coefficients"),
        "k": Knob(32, 1, 16777216, doc="coefficients that are sent of a chunk"),
        "decay": Knob(0.999, 0.0, 0.999999, doc="β: decay of the momentum"),
    },
    edits=(("learning", "algorithm detonation"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    experiment="detonation",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
