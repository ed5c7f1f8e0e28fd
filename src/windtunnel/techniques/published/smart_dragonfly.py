"""Run times of jobs that share a dragonfly, predicted from what the ports of routers count.

Several jobs' flows share local and global links on adaptive routes (`adaptive`); a surrogate learned from
simulated mixes reads the counters and says how long a job's next iteration takes, in place of simulating it.

Source: Wang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="smart-dragonfly",
    family="cluster-plan",
    summary="run times of jobs on a shared dragonfly from counters of router ports",
    paper=Paper(
        "SMART: A Surrogate Model for Predicting Application Runtime in Dragonfly Systems",
        2025,
        "https://arxiv.org/abs/2511.11111",
        "Wang, Xin and others",
        "AAAI 2026",
    ),
    levels=(),
    kind="predictor",
    about=("cluster",),
    use="`windtunnel_lab.models.clusters.dragonfly_runtime`",
    status="partial",
    missing="a graph network over ports and a model over time (boosted trees here); packets, here flows",
    experiment="smart_dragonfly",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
