"""Decentralised learning on RISC-V: schemes as trees, peers or a master.

The same mean can be formed by a master, among all peers or along a tree; messages and their ways differ, what is
learned does not.

What it costs: the way that the scheme takes.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="riscv-dml",
    algorithm="riscv-dml",
    knobs={
        "scheme": Knob(
            "master-worker", choices=("master-worker", "peer-to-peer", "tree"), doc="who sends what to whom"
        ),
        "local_steps": Knob(10, 1, 1000000, doc="K: local steps of a round"),
    },
    edits=(("learning", "algorithm riscv-dml"),),
    saves="network",
    resource="scale-out",
    quality="",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
