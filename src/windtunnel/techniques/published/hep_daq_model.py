"""A row of filters between a detector and its disks: power, cost and yield of what passes each stage.

Each stage keeps the events that score highest; what it drops costs nothing later, so that skill, bytes and joules of
the early stages decide. The model is `filter_pipeline`.

Source: Olin-Ammentorp, Wu and Chien 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="hep-daq-model",
    family="cluster-plan",
    summary="power and relevant samples a joule of filters in a row, from rates, bytes and skill of each",
    paper=Paper(
        "Modeling Performance of Data Collection Systems for High-Energy Physics",
        2024,
        "https://arxiv.org/abs/2407.00123",
        "Olin-Ammentorp, Wilkie and others",
        "APL Machine Learning 2(4)",
    ),
    levels=(),
    kind="meter",
    about=("cluster",),
    use="`windtunnel_lab.models.clusters.filter_pipeline.figures`",
    status="partial",
    missing="prices of hardware, latencies of messages, scores drawn from trigger efficiencies in place of normal ones",
    experiment="hep_daq_model",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
