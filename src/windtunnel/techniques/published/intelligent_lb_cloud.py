"""Loads are migrated between nodes where the overload saved is worth the bytes that moving copies.

A live migration copies memory and then what was written meanwhile, round after round, so that loads that write much are
dear to move. The search takes moves by overload saved less the price of their bytes, greedy by size alone
(`migrations`).

Source: Sliwko 2025; migration rounds: Clark et al. 2005.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="intelligent-lb-cloud",
    family="cluster-plan",
    summary="loads migrated by overload saved against memory copied and written meanwhile",
    paper=Paper(
        "Intelligent Load Balancing in Cloud Computer Systems",
        2025,
        "https://arxiv.org/abs/2509.22704",
        "Sliwko, Leszek",
        "thesis, University of Westminster",
    ),
    levels=(),
    kind="search",
    about=("cluster",),
    use="`windtunnel_lab.models.clusters.migrations`",
    status="partial",
    missing="the trace of a Google cell; agents that decide without a centre; memory as a second capacity",
    experiment="intelligent_lb_cloud",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
