"""Hybrid data parallelism: a document takes as many ranks as it needs, and work is dealt by time.

Short documents stay on one rank and exchange nothing; the mechanism is `plan.sequence_groups: by_length`. What it
costs: ranks that wait for one another where parameters are sharded (ZeRO-3), since their micro-batches are unlike.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique
from windtunnel.techniques.sequence_groups import EDITS, grouped, limits_of_groups, unlike

TECHNIQUE = Technique(
    id="bytescale",
    family="long-seq",
    summary="as many ranks as a document needs, work dealt to ranks by its time",
    paper=Paper(
        "ByteScale: Efficient Scaling of LLM Training with a 2048K Context Length on More Than 12,000 GPUs",
        2025,
        "https://arxiv.org/abs/2502.21231",
        "Ge and others",
        "arXiv",
    ),
    levels=("plan",),
    status="partial",
    edits=EDITS,
    applies_to=unlike,
    plan=grouped("by_length"),
    saves="exchange of short documents",
    resource="network",
    experiment="bytescale",
    missing="activations of long documents offloaded to host memory, so that fewer ranks hold them",
    limits=limits_of_groups(vanishes=0.02),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
