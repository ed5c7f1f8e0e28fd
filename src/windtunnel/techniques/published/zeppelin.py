"""Attention laid out by zones of length, everything else by tokens.

The mechanism is `plan.sequence_groups: zones`. What it costs: tokens that move between ranks before and after
attention, and all ranks meet in every micro-batch.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique
from windtunnel.techniques.sequence_groups import EDITS, grouped, limits_of_groups, unlike

TECHNIQUE = Technique(
    id="zeppelin",
    family="long-seq",
    summary="attention by zones of length, linear layers by tokens, tokens moved between the two",
    paper=Paper(
        "Zeppelin: Balancing Variable-length Workloads in Data Parallel Large Model Training",
        2025,
        "https://arxiv.org/abs/2509.21841",
        "Chen and others",
        "arXiv",
    ),
    levels=("plan",),
    status="partial",
    edits=EDITS,
    applies_to=unlike,
    plan=grouped("zones"),
    saves="exchange of short documents",
    resource="network",
    experiment="zeppelin",
    missing="transfers between nodes spread over all network adapters of a node",
    limits=limits_of_groups(vanishes=0.05),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
