"""Matrix: messages from queue to queue in place of one event loop that serves them in turn.

Source: Wang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="matrix-p2p",
    family="agents",
    summary="tasks hop from agent to agent through queues, without an orchestrator",
    paper=Paper(
        "Matrix: Peer-to-Peer Multi-Agent Synthetic Data Generation Framework",
        2025,
        "https://arxiv.org/abs/2511.21686",
        "Wang, Li, Ni and others",
        "arXiv 2511.21686",
    ),
    levels=("programs",),
    status="partial",
    missing="containers and row-level batching of inputs; the orchestrator's service time is an input",
    strategy="peer_to_peer",
    knobs={
        "stages": Knob(3, 1, 1000, doc="stages one after the other"),
        "agents": Knob(4, 1, 1000, doc="agents of a stage, side by side"),
    },
    edits=(("programs", "strategy peer_to_peer"),),
    saves="waiting for an orchestrator",
    resource="waiting",
    quality="none: the same messages are sent",
    experiment="matrix_p2p",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
