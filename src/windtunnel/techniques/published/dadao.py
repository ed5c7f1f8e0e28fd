"""DADAO: gradients and exchanges of neighbours at moments of their own.

Each worker steps and each edge exchanges as independent Poisson processes; momenta for both make the gradients needed
grow with the root of the condition number, and the messages with that of the graph.

What it costs: two copies of the parameters, and constants of the problem that have to be known.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import QUALITY

TECHNIQUE = Technique(
    id="dadao",
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
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
