"""Flag aggregator: a subspace that most gradients agree on.

Gradients of all workers are projected onto the subspace that explains most of them, found by reweighted singular
vectors, and averaged there; a wrong gradient lies outside.

What it costs: singular vectors of the gradients in each step, on a server that has all of them.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="flag-aggregator",
    algorithm="flag-aggregator",
    knobs={
        "dimensions": Knob(0, 0, 100000, doc="of the subspace; 0: half of the workers and one"),
        "rounds": Knob(4, 1, 1000, doc="of reweighting"),
        "weights": Knob(
            "median", choices=("median", "likelihood"), doc="of the flag median, or of the Beta(1, ½) likelihood"
        ),
        "lengths": Knob(
            "unit", choices=("unit", "median", "full"), doc="how long gradients count: unit as in the authors' code"
        ),
    },
    edits=(("learning", "algorithm flag-aggregator"),),
    saves="recovery",
    resource="recovery",
    quality="means of a subspace: less than the mean uses, without attacks",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
