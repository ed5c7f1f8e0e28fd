"""Task graphs on unlike processing elements: a learned rank chooses late, HEFT plans at arrival.

HEFT's plan rests on expected times and keeps its order when they are wrong; a rank that decides when an element falls
free follows what has happened (`task_graphs`).

Source: Sung et al. 2020; HEFT: Topcuoglu et al. 2002.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="deepsocs",
    family="cluster-plan",
    summary="task graphs on unlike elements by a learned rank and earliest finish, beside HEFT, under noise",
    paper=Paper(
        "DeepSoCS: A Neural Scheduler for Heterogeneous System-on-Chip (SoC) Resource Scheduling",
        2020,
        "https://arxiv.org/abs/2005.07666",
        "Sung, Tegg Taekyong and others",
        "Electronics 9(6)",
    ),
    levels=(),
    kind="search",
    about=("cluster",),
    use="`windtunnel_lab.models.clusters.task_graphs`",
    status="partial",
    missing="a graph network trained by policy gradients (a weighted rank here), power and clocks of the elements",
    experiment="deepsocs",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
