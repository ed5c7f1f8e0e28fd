"""Papaya: the server steps at every K arrivals, and slow clients hold nobody up.

Clients that finish send how far they have moved; late ones weigh less. Beside it, rounds wait for most of those who
were asked, and throw the rest away.

What it costs: differences that start from parameters of some server steps ago.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import ASYNC_QUALITY

TECHNIQUE = Technique(
    id="papaya",
    algorithm="papaya",
    knobs={
        "local_steps": Knob(10, 1, 1000000, doc="local steps of a round"),
        "buffer": Knob(10, 1, 100000, doc="K: arrivals of one server step"),
        "concurrency": Knob(0, 0, 100000, doc="workers that are active at a time, drawn among all; 0: everyone"),
        "staleness_exponent": Knob(0.5, 0.0, 10.0, doc="an upload s server steps late weighs (1 + s)^−exponent"),
    },
    edits=(("learning", "algorithm papaya"),),
    saves="stragglers",
    resource="stragglers",
    quality=ASYNC_QUALITY,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
