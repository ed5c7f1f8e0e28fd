"""Prefill token equivalents: prompts computed again after pauses, and decode steps over long contexts, in one count.

Source: Su et al. 2026.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="pte-tool-reasoning",
    family="agents",
    summary="a count of tokens that follows the latency of programs with tools",
    paper=Paper(
        "Beyond Accuracy: Unveiling Inefficiency Patterns in Tool-Integrated Reasoning",
        2026,
        "https://arxiv.org/abs/2604.05404",
        "Su, Huang, Fang, Chen, Chen, Zhao",
        "arXiv 2604.05404",
    ),
    levels=(),
    kind="meter",
    about=("programs",),
    use="`windtunnel reproduce pte_tool_reasoning`",
    status="partial",
    missing="patterns of inefficiency of real models; correctness against cost",
    experiment="pte_tool_reasoning",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
