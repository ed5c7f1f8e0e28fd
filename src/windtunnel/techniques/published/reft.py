"""Checkpoints stay in host memory: each node snapshots its shards in small buckets, a group of nodes holds parity.

Every data-parallel replica copies its own part of the state to host memory, behind forward and backward; software
failures leave that copy. Nodes of a group then add parity over the network, so that the group survives the loss of as
many nodes as it has parity. Shared storage gets a save only every so many snapshots, for what host memory does not
survive.

What it costs: host memory for the copies and the parity, ports that carry it, copies that slow the steps beside them. A
rack that takes more nodes of a group than its parity falls back to storage, where the last save is older.

Source: Wang et al. 2023, sections 4 and 5.
"""

from __future__ import annotations

from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.specs.run import CheckpointTier, RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def _in_memory(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
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


TECHNIQUE = Technique(
    id="reft",
    knobs={
        "group": Knob(4, 2, 64, "nodes of one parity group"),
        "parity": Knob(1, 1, 32, "nodes of a group that may be lost at once"),
        "storage_every": Knob(20, 1, 10_000, "snapshots for one save to storage"),
    },
    edits=(("run", "checkpoint mode"), ("run", "tiers")),
    run_section=_in_memory,
    saves="checkpoints",
)
