"""DADAO: gradients and exchanges of neighbours at moments of their own.

Each worker steps and each edge exchanges as independent Poisson processes; momenta for both make the gradients needed
grow with the root of the condition number, and the messages with that of the graph.

What it costs: two copies of the parameters, and constants of the problem that have to be known.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.learning_limits import QUALITY

TECHNIQUE = Technique(
    id="dadao",
    family="low-comm",
    summary="accelerated gossip whose gradients and exchanges fire as Poisson clocks",
    paper=Paper(
        "DADAO: Decoupled Accelerated Decentralized Asynchronous Optimization",
        2022,
        "https://arxiv.org/abs/2208.00779",
        "Nabli, Oyallon",
        "ICML 2023",
    ),
    levels=("learning",),
    status="partial",
    missing="the clocks are drawn in whole steps; laws need strongly convex problems",
    algorithm="dadao",
    knobs={
        "graph": Knob("ring", doc="id of a graph: ring, torus, hypercube, complete"),
        "smoothness": Knob(1.0, 1e-12, 1000000000000.0, doc="L: largest curvature of a worker's loss"),
        "convexity": Knob(0.01, 1e-12, 1000000000000.0, doc="μ: least curvature of a worker's loss"),
    },
    edits=(("learning", "algorithm dadao"),),
    saves="network",
    resource="scale-out",
    quality=QUALITY,
    experiment="dadao",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
