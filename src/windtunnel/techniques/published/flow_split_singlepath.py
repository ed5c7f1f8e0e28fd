"""A few flows are cut so that each spine carries the same, without spraying packets.

The bytes that leave one leaf for another lie end to end and are cut into as many equal parts as there are spines; only
the flows that a cut passes through become two pieces (`cluster.scale_out.fabric.routing: split`). The busiest link then
carries what it would under perfect spraying. Every piece is a message of its own, which the sender's engine handles.

Source: Addanki, Goyal & Marinos 2024.
"""

from __future__ import annotations

from windtunnel.techniques.base import Technique
from windtunnel.techniques.published.c4 import rerouted, without_paths

TECHNIQUE = Technique(
    id="flow-split-singlepath",
    edits=(("plan", "paths"),),
    applies_to=without_paths,
    cluster=lambda cluster, _: rerouted(cluster, "split"),
    saves="scale-out",
)
