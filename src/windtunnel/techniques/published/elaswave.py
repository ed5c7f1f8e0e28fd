"""What `elaswave.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import CheckpointTier, RunSpec
from windtunnel.specs.scenario import Scenario


def without_peers(scenario: Scenario) -> str | None:
    """Why no peer can take over; None where one can."""
    return "plan.pp is 1: there are no stages to balance" if scenario.plan.pp == 1 else None


def run_section(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    recovery = run.recovery.model_copy(
        update={"policy": "rebalance", "clock_up": knobs["clock_up"], "initialise_s": knobs["communicator_s"]}
    )
    tiers = (CheckpointTier(to="peer", mode="lazy"), *run.checkpoint.tiers)
    checkpoint = run.checkpoint.model_copy(update={"tiers": tiers})
    return run.model_copy(update={"recovery": recovery, "checkpoint": checkpoint})


applies_to_run = without_peers
