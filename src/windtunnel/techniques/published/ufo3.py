"""UFO^3: a request as a graph of subtasks on several endpoints.

Source: Zhang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="ufo3",
    family="agents",
    summary="tasks of a graph run as soon as they are ready",
    paper=Paper(
        "UFO^3: Weaving the Digital Agent Galaxy",
        2025,
        "https://arxiv.org/abs/2511.11332",
        "Zhang, Li, He, Ni, Qiao, Qin and others",
        "arXiv 2511.11332",
    ),
    levels=(),
    kind="predictor",
    about=("programs",),
    use="strategy `graph` of `windtunnel reason`",
    status="partial",
    missing="edits of the graph while it runs, failures and retries",
    experiment="ufo3",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
