"""A data-intensive job goes to the site where a learned model predicts that it ends first.

Links, round trips and load of each candidate are measured, completion is regressed from them, and the least wins; a
scheduler that looks at processors alone sends jobs behind full links (`site_completion`).

Source: Timilsina and Shannigrahi 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="network-aware-supervised-sched",
    family="cluster-plan",
    summary="completion of a job regressed for each candidate site from links and load, the best taken",
    paper=Paper(
        "Learning to Schedule: A Supervised Learning Framework for Network-Aware Scheduling of "
        "Data-Intensive Workloads",
        2025,
        "https://arxiv.org/abs/2510.21419",
        "Timilsina, Sankalpa and Shannigrahi, Susmit",
    ),
    levels=(),
    kind="predictor",
    about=("cluster",),
    use="`windtunnel_lab.models.clusters.site_completion`",
    status="partial",
    missing="measurements of a testbed (data are drawn from flows), jobs that come one after the other",
    experiment="network_aware_supervised_sched",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
