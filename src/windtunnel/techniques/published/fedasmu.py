"""FedASMU: asynchronous aggregation whose weights are learned.

Each arrival is mixed into the global model with a weight that follows the gradient of the loss, and a client may
fetch fresh parameters in the middle of its work.

What it costs: a further download in each round.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.learning_limits import ASYNC_QUALITY

TECHNIQUE = Technique(
    id="fedasmu",
    algorithm="fedasmu",
    knobs={
        "local_steps": Knob(10, 1, 1000000, doc="local steps of a round"),
        "mix": Knob(1.0, 0.0, 1000.0, doc="μ: scale of the weights"),
        "fetch_at": Knob(
            0.5, 0.0, 1.0, doc="share of a round after which a worker asks for fresh parameters; 0: never"
        ),
        "concurrency": Knob(0, 0, 100000, doc="workers that are active at a time, drawn among all; 0: everyone"),
    },
    edits=(("learning", "algorithm fedasmu"),),
    saves="stragglers",
    resource="stragglers",
    quality=ASYNC_QUALITY,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
