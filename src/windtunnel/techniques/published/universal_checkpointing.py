"""Checkpoints that any plan can load: a run goes on with the nodes that are left, in place of waiting for a repair.

Every rank saves its own shards as before. When a run comes back with other nodes, its shards are converted into one
file for each parameter, and the ranks of the new plan load their slices of them. The new plan is the fastest one for
the nodes that are there (`run.recovery.policy: reshape`); when nodes return, the run changes back.

What it costs: conversion, at every change of the number of nodes; steps on fewer nodes. Where a repair is shorter than
conversion and load, waiting is better.

Source: Lian et al. 2024, sections 3 and 4.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def _reshaped(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    change = {"policy": "reshape", "convert_processes": knobs["processes"], "least_replicas": knobs["least_nodes"]}
    return run.model_copy(update={"recovery": run.recovery.model_copy(update=change)})


TECHNIQUE = Technique(
    id="universal-checkpointing",
    knobs={
        "processes": Knob(8, 0, 100000, "processes that convert; 0: loaded as it is"),
        "least_nodes": Knob(0.5, 0.1, 1.0, "share of the nodes below which the run waits"),
    },
    edits=(("run", "policy"),),
    run_section=_reshaped,
    saves="recovery",
)
