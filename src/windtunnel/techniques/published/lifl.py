"""LIFL: updates are aggregated in a tree of functions that share memory.

A serverless platform hands each update through a broker and a side-car at every hop; over shared memory a hop is one
read, subtrees sit on one node, and warm functions are used again.

What it costs: nothing in what is learned.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="lifl",
    family="fl-edge",
    summary="aggregation in a tree over shared memory in place of brokers",
    paper=Paper(
        "LIFL: A Lightweight, Event-driven Serverless Platform for Federated Learning",
        2024,
        "https://arxiv.org/abs/2405.10968",
        "Qi, Ramakrishnan, Lee",
        "MLSys 2024",
    ),
    levels=("learning",),
    status="partial",
    missing="copies and additions are rates, not measured; its claims are orderings that a unit test holds",
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
