"""Heterogeneous agentic AI: nodes of an agent's graph on the device classes that keep its deadline at least rent.

Source: Asgar et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="hetero-agentic",
    family="agents",
    summary="device classes for the calls and tools of an agent's graph, at least rent within a deadline",
    paper=Paper(
        "Efficient and Scalable Agentic AI with Heterogeneous Systems",
        2025,
        "https://arxiv.org/abs/2507.19635",
        "Asgar, Nguyen, Katti",
        "arXiv 2507.19635",
    ),
    levels=(),
    kind="search",
    about=("programs",),
    use="`windtunnel_lab.models.programs.placement.least_cost`",
    status="partial",
    missing="operators below calls (its MLIR), capital and running costs apart, and moving work while it runs",
    experiment="hetero_agentic",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
