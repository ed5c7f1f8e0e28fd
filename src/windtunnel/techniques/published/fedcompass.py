"""FedCompass: clients get as many local steps as they can do until the others are back.

The server measures speeds and gives each client between Qmin and Qmax steps, so that a group arrives nearly together:
no barrier, and little staleness.

What it costs: unequal local steps.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import ASYNC_QUALITY

TECHNIQUE = Technique(
    id="fedcompass",
    algorithm="fedcompass",
    knobs={
        "least_steps": Knob(5, 1, 1000000, doc="Qmin: fewest local steps of a round"),
        "most_steps": Knob(25, 1, 1000000, doc="Qmax: most local steps of a round"),
        "late_factor": Knob(1.2, 1.0, 100.0, doc="a group waits this many times its length at most"),
    },
    edits=(("learning", "algorithm fedcompass"),),
    saves="stragglers",
    resource="stragglers",
    quality=ASYNC_QUALITY,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
