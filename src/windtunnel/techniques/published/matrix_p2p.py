"""Matrix: messages from queue to queue in place of one event loop that serves them in turn.

Source: Wang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="matrix-p2p",
    strategy="peer_to_peer",
    knobs={
        "stages": Knob(3, 1, 1000, doc="stages one after the other"),
        "agents": Knob(4, 1, 1000, doc="agents of a stage, side by side"),
    },
    edits=(("programs", "strategy peer_to_peer"),),
    saves="waiting for an orchestrator",
    resource="waiting",
    quality="none: the same messages are sent",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
