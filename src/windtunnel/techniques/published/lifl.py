"""LIFL: updates are aggregated in a tree of functions that share memory.

A serverless platform hands each update through a broker and a side-car at every hop; over shared memory a hop is one
read, subtrees sit on one node, and warm functions are used again.

What it costs: nothing in what is learned.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="lifl",
    algorithm="lifl",
    knobs={
        "local_steps": Knob(10, 1, 1000000, doc="local steps of a round"),
        "active": Knob(0, 0, 100000, doc="m: uploads that a round waits for; 0: those of all workers"),
        "plane": Knob(
            "shared-memory",
            choices=("shared-memory", "serverful", "broker"),
            doc="how updates travel between aggregators",
        ),
        "fan_in": Knob(2, 2, 100000, doc="updates that one aggregator adds"),
    },
    edits=(("learning", "algorithm lifl"),),
    saves="host",
    resource="host",
    quality="",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
