"""REBEL: retrieved documents scored by several criteria before the answer.

Criteria lengthen the chain of thought of a reranking call; further turns are further calls.

What it costs: tokens of the reranker, which grow with criteria and candidates.

Source: LeVine et al. 2025 (arXiv 2504.07104).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="rebel",
    family="decode-tts",
    summary="reranking by several criteria in chain of thought",
    paper=Paper(
        "Relevance Isn't All You Need: Scaling RAG Systems With Inference-Time Compute Via Multi-Criteria Reranking",
        2025,
        "https://arxiv.org/abs/2504.07104",
        "LeVine, Varjavand",
        "arXiv 2504.07104",
    ),
    levels=("programs",),
    status="partial",
    missing="what criteria do to answers",
    strategy="multi_criteria_rerank",
    knobs={
        "criteria": Knob(1, 0, 100, doc="criteria beside the question"),
        "turns": Knob(1, 1, 100, doc="calls of the reranker"),
        "candidates": Knob(10, 1, 10_000, doc="documents that are reranked"),
    },
    edits=(("programs", "strategy multi_criteria_rerank"),),
    saves="documents that do not help",
    resource="compute",
    quality=ASSUMED,
    experiment="rebel",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
