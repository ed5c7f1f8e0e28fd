"""SEDM: how many entries of a memory a program reads.

Source: Xu et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="sedm",
    family="agents",
    summary="an admitted memory puts fewer tokens into prompts",
    paper=Paper(
        "SEDM: Scalable Self-Evolving Distributed Memory for Agents",
        2025,
        "https://arxiv.org/abs/2509.09498",
        "Xu, Hu, Zhang, Yu, Tang, Song, Duan, Ai, Shi",
        "arXiv 2509.09498",
    ),
    levels=(),
    kind="predictor",
    about=("programs",),
    use="strategy `rag` of `windtunnel reason`",
    status="partial",
    missing="what admission by replay keeps, and its cost: the number of entries is an input",
    experiment="sedm",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
