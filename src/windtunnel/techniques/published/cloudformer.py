"""The slow-down of a black-box machine by its neighbours, from series of one sample a second.

Machines share a host's cache, memory rate and port; a predictor learned from simulated hosts reads what a hypervisor
sees (`interference`), for workloads that it has not seen.

Source: Shahbazinia et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="cloudformer",
    family="cluster-plan",
    summary="slow-down of a black-box machine from one-second series of co-located load",
    paper=Paper(
        "CloudFormer: An Attention-based Performance Prediction for Public Clouds with Unknown Workload",
        2025,
        "https://arxiv.org/abs/2509.03394",
        "Shahbazinia, Amirhossein and others",
    ),
    levels=(),
    kind="predictor",
    about=("cluster",),
    use="`windtunnel_lab.models.clusters.interference`",
    status="partial",
    missing=(
        "the paper's data set and its error of 7.8 %, the comparison with an LSTM (both not run); an attention "
        "network, here boosted trees over moments of the series"
    ),
    experiment="cloudformer",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
