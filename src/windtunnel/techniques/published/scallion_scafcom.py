"""SCALLION and SCAFCOM: controlled averaging with half the uplink.

From one vector a client sends, the server finds both its parameters and its control variate. The vector may be
compressed: without bias (SCALLION), or with momentum and any contraction (SCAFCOM).

What it costs: a control variate on each client.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="scallion-scafcom",
    family="fl-edge",
    summary="SCAFFOLD with one upload in place of two, and compressed",
    paper=Paper(
        "Stochastic Controlled Averaging for Federated Learning with Communication Compression",
        2023,
        "https://arxiv.org/abs/2308.08165",
        "Huang, Li, Li",
        "ICLR 2024",
    ),
    levels=("learning",),
    status="partial",
    missing="privacy; time limits are those of a synchronous round",
    algorithm="scallion-scafcom",
    knobs={
        "local_steps": Knob(10, 1, 1000000, doc="K: local steps of a round"),
        "active": Knob(0, 0, 100000, doc="m: clients of a round, drawn anew each time; 0: all"),
        "momentum": Knob(1.0, 1e-06, 1.0, doc="β: 1 is SCALLION, less is SCAFCOM"),
        "scaling": Knob(1.0, 1e-06, 1.0, doc="α: share of a control's change that is uploaded"),
    },
    edits=(("learning", "algorithm scallion-scafcom"),),
    saves="network",
    resource="scale-out",
    quality="none without compression: it is SCAFFOLD; compressed, as the compressor says",
    experiment="scallion_scafcom",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
