"""Benchmark scores of processors from the features of their data sheets.

Cores, clocks, watts, cache and channels of a processor and what a benchmark asks for give a score with knees; a learned
model reads the features (`cpu_score`).

Source: Liu et al. 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="ncpp",
    family="cluster-plan",
    summary="scores of processors on benchmarks from the features of their data sheets",
    paper=Paper(
        "Towards CPU Performance Prediction: New Challenge Benchmark Dataset and Novel Approach",
        2024,
        "https://arxiv.org/abs/2407.03385",
        "Liu, Xiaoman",
    ),
    levels=(),
    kind="predictor",
    about=("cluster",),
    use="`windtunnel_lab.models.clusters.cpu_score`",
    status="partial",
    missing="group attention; measured scores (on the published part of its table trees lose to a linear model)",
    experiment="ncpp",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
