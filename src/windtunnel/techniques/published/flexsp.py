"""Groups of unlike sizes, chosen for every micro-batch by a mixed-integer linear programme.

The mechanism is `plan.sequence_groups: solved`. What it costs: ranks that stand empty where documents do not fill
groups.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique
from windtunnel.techniques.sequence_groups import EDITS, grouped, limits_of_groups, unlike

TECHNIQUE = Technique(
    id="flexsp",
    family="long-seq",
    summary="groups of unlike sizes for each micro-batch, found by a linear programme",
    paper=Paper(
        "FlexSP: Accelerating Large Language Model Training via Flexible Sequence Parallelism",
        2024,
        "https://arxiv.org/abs/2412.01523",
        "Wang and others",
        "arXiv",
    ),
    levels=("plan",),
    status="partial",
    edits=EDITS,
    applies_to=unlike,
    plan=grouped("solved"),
    saves="exchange of short documents",
    resource="network",
    experiment="flexsp",
    missing="time of the solver, which runs beside the step before; groups that NCCL sets up on first use",
    limits=limits_of_groups(vanishes=0.05),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
