"""AgentTTS: models and samples for each stage of a task under one budget, found in few trials.

Source: Wang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="agenttts",
    family="agents",
    summary="a guided search for each stage's model and samples under one budget",
    paper=Paper(
        "AgentTTS: Large Language Model Agent for Test-time Compute-optimal Scaling Strategy in Complex Tasks",
        2025,
        "https://arxiv.org/abs/2508.00890",
        "Wang, Liu, Dai, Zeng and others",
        "NeurIPS 2025",
    ),
    levels=(),
    kind="search",
    about=("programs",),
    use="`windtunnel_lab.models.programs.stage_searches`",
    status="partial",
    missing="the language model that guides the search: its three insights are run as rules",
    experiment="agenttts",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
