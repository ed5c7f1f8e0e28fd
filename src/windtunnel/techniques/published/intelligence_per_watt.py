"""Accuracy a watt and a joule of models on local and cloud accelerators, and a router between them.

Watts and joules of a query come from `serve`; a router sends a query to the local model where it expects a right
answer, and the cloud answers the rest (`intelligence_per_watt`).

Source: Saad-Falcon et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="intelligence-per-watt",
    family="cluster-plan",
    summary="accuracy a watt of local and cloud accelerators, and what a router between them saves",
    paper=Paper(
        "Intelligence per Watt: Measuring Intelligence Efficiency of Local AI",
        2025,
        "https://arxiv.org/abs/2511.07885",
        "Saad-Falcon, Jon and others",
    ),
    levels=(),
    kind="meter",
    about=("serving",),
    use="`windtunnel serve` for watts and joules, `intelligence_per_watt` for the router",
    status="partial",
    missing="accuracy of each model on each query, which is not public, and with it the coverage of 88.7 % (not run)",
    experiment="intelligence_per_watt",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
