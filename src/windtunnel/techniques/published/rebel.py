"""REBEL: retrieved documents scored by several criteria before the answer.

Criteria lengthen the chain of thought of a reranking call; further turns are further calls.

What it costs: tokens of the reranker, which grow with criteria and candidates.

Source: LeVine et al. 2025 (arXiv 2504.07104).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="rebel",
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
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
