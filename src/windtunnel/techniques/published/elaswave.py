"""ElasWave: a run goes on without a dead node; its micro-batches are cut anew for the peers of its stage, layers move.

The ranks of the same stage in other replicas take the dead rank's part of every micro-batch, so that the batch stays.
Layers move from that stage to others until all take as long (`runs/reduced_pipelines.py`), and the clock of what is
still slowest goes up. Communicators are edited in place instead of built anew, and the state comes from snapshots that
peers take each step.

What it costs: host memory for the snapshots, ports that carry them, watts of the raised clock, steps on fewer nodes.

Source: Kang et al. 2025, sections 4 to 6.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import CheckpointTier, RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def without_peers(scenario: Scenario) -> str | None:
    """Why no peer can take over; None where one can."""
    return "plan.pp is 1: there are no stages to balance" if scenario.plan.pp == 1 else None


def _elastic(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    recovery = run.recovery.model_copy(
        update={"policy": "rebalance", "clock_up": knobs["clock_up"], "initialise_s": knobs["communicator_s"]}
    )
    tiers = (CheckpointTier(to="peer", mode="lazy"), *run.checkpoint.tiers)
    checkpoint = run.checkpoint.model_copy(update={"tiers": tiers})
    return run.model_copy(update={"recovery": recovery, "checkpoint": checkpoint})


TECHNIQUE = Technique(
    id="elaswave",
    knobs={
        "clock_up": Knob(
            1.05, 1.0, 2.0, "clock that a device may take over its own, where it has most to do", given=True
        ),
        "communicator_s": Knob(1.0, 0.0, 3600.0, "seconds of editing communicators in place", given=True),
    },
    edits=(("run", "policy"), ("run", "tiers")),
    applies_to_run=without_peers,
    run_section=_elastic,
    saves="recovery",
)
