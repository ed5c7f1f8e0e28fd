"""What `reft.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.specs.run import CheckpointTier, RunSpec
from windtunnel.specs.scenario import Scenario


def run_section(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    group, parity, seldom = knobs["group"], knobs["parity"], knobs["storage_every"]
    if parity >= group:
        raise BadInput(Problem("techniques.reft.parity", f"must be below group = {group}", parity))
    own = run.checkpoint
    far = tuple(
        tier.model_copy(update={"every": tier.every * seldom, "mode": "lazy"})
        for tier in own.tiers
        if tier.to in ("storage", "drive")
    )
    near = (
        CheckpointTier(to="host", mode="lazy", every_replica=False),
        CheckpointTier(to="erasure", mode="lazy", group=group, parity=parity),
    )
    update = {"tiers": (*near, *far), "parallel_writers": True}
    return run.model_copy(update={"checkpoint": own.model_copy(update=update)})
