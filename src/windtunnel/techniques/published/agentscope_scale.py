"""AgentScope at scale: agents as actors whose calls do not wait for each other.

Source: Pan et al. 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="agentscope-scale",
    family="agents",
    summary="independent agents run side by side as actors",
    paper=Paper(
        "Very Large-Scale Multi-Agent Simulation in AgentScope",
        2024,
        "https://arxiv.org/abs/2407.17789",
        "Pan, Gao, Xie and others",
        "arXiv 2407.17789",
    ),
    levels=(),
    kind="predictor",
    about=("programs",),
    use="strategy `graph` of `windtunnel reason`",
    status="partial",
    missing="actors over several hosts, and the cost of their messages",
    experiment="agentscope_scale",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
