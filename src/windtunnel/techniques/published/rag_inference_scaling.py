"""Inference scaling for RAG: effective context of documents, shots and iterations.

Source: Yue et al. 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="rag-inference-scaling",
    family="decode-tts",
    summary="k documents, shots and iterations as what compute is spent on",
    paper=Paper(
        "Inference Scaling for Long-Context Retrieval Augmented Generation",
        2024,
        "https://arxiv.org/abs/2410.04343",
        "Yue, Zhuang and others",
        "arXiv 2410.04343",
    ),
    levels=("programs",),
    status="partial",
    missing="its law of accuracy over documents, shots and iterations is of closed models: its gain is not claimed",
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
    experiment="rag_inference_scaling",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
