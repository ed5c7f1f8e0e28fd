"""Inference scaling for RAG: effective context of documents, shots and iterations.

Source: Yue et al. 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="rag-inference-scaling",
    strategy="rag",
    knobs={
        "documents": Knob(10, 0, 100000, doc="documents of a retrieval"),
        "shots": Knob(0, 0, 10000, doc="demonstrations in the prompt"),
        "iterations": Knob(1, 1, 1000, doc="retrievals one after the other"),
    },
    edits=(("programs", "strategy rag"),),
    saves="nothing: it spends prompt tokens",
    resource="compute",
    quality="accuracy over documents is not known here",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
