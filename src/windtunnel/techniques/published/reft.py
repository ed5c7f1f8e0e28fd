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
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique


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
    limits=Limits(
        scenario={
            "model": "meta-llama/Llama-2-13b-hf",
            "cluster": {"device": "a100-sxm-40gb", "nodes": 8, "devices_per_node": 8},
            "training": {"seq_len": 4096, "global_batch": 128},
            "plan": {"tp": 4, "pp": 4, "mbs": 1, "zero": 1},
            "run": {
                "steps": 20000,
                "failures": {"causes": [{"name": "node failure", "per_1000_node_days": 1000}]},
                "replications": 8,
                "checkpoint": {"storage_write_bytes_per_s": "2 GB/s", "parallel_writers": False},
                "recovery": {"spares": 8, "auto_repair_s": 600, "manual_share": 0},
            },
        },
        measure="days.mean",
        # storage as fast as host memory, written by all: nothing is left to save
        free={
            "run": {
                "checkpoint": {
                    "storage_write_bytes_per_s": "100 TB/s",
                    "writer_bytes_per_s": "10 TB/s",
                    "parallel_writers": True,
                }
            }
        },
        vanishes=0.05,
        # whole racks fail, and storage is old
        costly={"storage_every": 5000},
        costly_scenario={
            "run": {
                "failures": {
                    "causes": [{"name": "rack", "per_1000_rack_days": 1000, "radius": "rack"}],
                    "nodes_per_rack": 4,
                },
                "checkpoint": {"storage_write_bytes_per_s": "100 GB/s"},
            }
        },
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
