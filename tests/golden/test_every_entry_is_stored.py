"""Every entry of a registry that a scenario can name, and every knob of it, acts in a stored result.

A new entry or knob fails here until a case of `tests/golden/commands` names it: add a line with `base` and `set` to
the file of the command that reads it, an empty `digest`, and run `make goldens`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from windtunnel.registry import Registry

pytestmark = pytest.mark.golden

COMMANDS = Path(__file__).with_name("commands")
REGISTRIES = {
    "windtunnel.clusters.policies:POLICIES": "cluster",
    "windtunnel.clusters.round_policies:ROUND_POLICIES": "cluster",
    "windtunnel.clusters.sharing_policies:SHARING_POLICIES": "cluster",
    "windtunnel.clusters.task_policies:TASK_POLICIES": "cluster",
    "windtunnel.clusters.elastic_policies:ELASTIC_POLICIES": "cluster",
    "windtunnel.clusters.pod_policies:POD_POLICIES": "cluster",
    "windtunnel.clusters.placements:PLACEMENTS": "cluster",
    "windtunnel.clusters.traces:JOB_TRACES": "cluster",
    "windtunnel.programs.strategies:STRATEGIES": "reason",
    "windtunnel.serving.routers.base:ROUTERS": "serve",
    "windtunnel.serving.event_loop.twin.queue:QUEUES": "serve",
    "windtunnel.serving.batching.base:POLICIES": "serve",
    "windtunnel.serving.admission.base:ADMISSION": "serve",
    "windtunnel.serving.engine_defaults.base:ENGINES": "serve",
    "windtunnel.serving.kv_tiers.kinds:TIERS": "serve",
    "windtunnel.serving.speculation.base:METHODS": "serve",
    "windtunnel.serving.speculation.orders.base:ORDERS": "serve",
    "windtunnel.serving.traffic.trajectories.base:METHODS": "serve",
    "windtunnel.learning.algorithms:ALGORITHMS": "learn",
    "windtunnel.learning.compressors:COMPRESSORS": "learn",
    "windtunnel.learning.inner:INNER": "learn",
    "windtunnel.learning.outer:OUTER": "learn",
    "windtunnel.learning.tasks:TASKS": "learn",
    "windtunnel.learning.mixing:GRAPHS": "learn",
    "windtunnel.learning.aggregators:AGGREGATORS": "learn",
    "windtunnel.runs.step_waits.base:STEP_WAITS": "run",
    "windtunnel.exporters.target:TARGETS": "launch_files",
    "windtunnel.exporters.servers.target:SERVER_TARGETS": "launch_files",
}
"""Module and name of a registry → the file of stored results that its entries act in."""
DEFAULTS = {"all", "consolidated", "csv", "fcfs", "serial"}
"""Entries that act wherever none is named."""
NOT_YET = frozenset(
    """
    async-diloco.compressor async-diloco.timeout_s co2.compressor dadao.graph dadao.edge_rate daef.penalty
    dbw.wait_for delayed-nesterov.every delayed-nesterov.compressor delayed-nesterov.timeout_s des-loc.period_m
    des-loc.period_v detonation.decay detonation.chunk detonation.k detonation.fraction detonation.sign
    detonation.lr_in_momentum detonation.mean detonation.bits detonation.positions dettmers-8bit.block dfedsam.graph
    diloco.fragments diloco.compressor eager-diloco.compressor elastic-local-sgd.compressor
    elastic-local-sgd.timeout_s fedasmu.timeout_s fedasync.max_staleness fedasync.timeout_s fedavg.compressor
    fedavg-sync.timeout_s fedavg-sync.compressor fedbuff.max_staleness fedbuff.timeout_s fedbuff.compressor
    fedcompass.timeout_s fedprox.compressor fl-5g-testbed.timeout_s fl-5g-testbed.compressor intellect-1.fragments
    intellect-1.drop intellect-1.compressor intellect-1.feedback lifl.timeout_s lifl.compressor masha.compressor
    masha.down mt-dao.period_u mt-dao.period_v mt-dao.betas mt-dao.weights noloco.mixing_weight papaya.max_staleness
    papaya.timeout_s papaya.compressor qsr.compressor sbacc sbacc.blocks sbacc.late sbacc.wrong sbacc.strength
    scallion-scafcom.compressor sequential-gradient-coding.burst sparseloco.compressor streaming-diloco.outer
    streaming-diloco.outer_lr streaming-diloco.outer_momentum streaming-diloco.fragments streaming-diloco.late
    streaming-diloco.lead streaming-diloco.layerwise streaming-diloco.local_share streaming-diloco.drop
    streaming-diloco.bits streaming-diloco.compressor streaming-diloco.feedback streaming-diloco.via
    streaming-diloco.may_stall dynamic_tree8.block float4.block sign.block topk.chunk average.lr delayed_nesterov
    delayed_nesterov.lr delayed_nesterov.momentum delayed_nesterov.every delayed_nesterov.spread heavy_ball.lr
    heavy_ball.momentum heavy_ball.gap_penalty heavy_ball.clip nesterov.lr nesterov.momentum logistic.dtype krum
    krum.wrong trimmed_mean.wrong
    """.split()
)
"""Of learning: at these knobs' defaults alone so far."""
NOT_STORED: dict[str, str] = {
    "text_to_sql": "needs a file of queries: tests/unit/programs/test_agent_strategies.py",
    "mlp-digits": "needs scikit-learn's digits: tests/unit/learning/test_tasks.py",
    "torch-module": "needs PyTorch: tests/unit/learning/test_torch_module.py",
    "ngram-lm.file": "a text of one's own: tests/unit/learning/test_tasks.py",
    **dict.fromkeys(NOT_YET, "not yet"),
}
"""Entry, or entry and knob → why no stored result has it."""


@cache
def named(command: str) -> tuple[frozenset[str], frozenset[str]]:
    """Every id of a command's scenarios, and every `id.knob`."""
    file = COMMANDS.with_name(f"{command}.json") if command == "launch_files" else COMMANDS / f"{command}.json"
    found = json.loads(file.read_text("utf-8"))
    ids: set[str] = set()
    knobs: set[str] = set()
    for each in [*found["bases"].values(), *found["cases"].values()]:
        for id, knob in _names({name: value for name, value in each.items() if name != "digest"}):
            (knobs if knob else ids).add(f"{id}.{knob}" if knob else id)
    return frozenset(ids), frozenset(knobs)


def _names(value: Any) -> Iterator[tuple[str, str]]:
    """Ids (words and keys) below a value, each with the knobs given to it; paths of fields end in theirs."""
    if isinstance(value, str):
        yield value, ""
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key, ""
            parts = key.split(".")
            yield from pairwise(parts)
            yield from ((key, knob) for knob in (inner if isinstance(inner, dict) else ()))
            yield from _names(inner)


def registry(place: str) -> Registry[Any]:
    module, name = place.split(":")
    found = getattr(importlib.import_module(module), name)
    assert isinstance(found, Registry)
    return found


@pytest.mark.parametrize("place", REGISTRIES)
def test_every_entry_and_knob_acts_in_a_stored_result(place: str) -> None:
    command = REGISTRIES[place]
    ids, knobs = named(command)
    missing = []
    for id, entry in registry(place).items():
        if id not in ids and id not in DEFAULTS and id not in NOT_STORED:
            missing.append(id)
        for knob in getattr(entry, "knobs", None) or ():
            own = f"{id}.{knob}"
            if own not in knobs and own not in NOT_STORED and id not in NOT_STORED:
                missing.append(own)
    assert missing == [], f"add cases to {command}.json of tests/golden, then run `make goldens`: {', '.join(missing)}"


def test_what_is_not_stored_exists() -> None:
    known = {id for place in REGISTRIES for id in registry(place).list()}
    knobs = {
        f"{id}.{knob}"
        for place in REGISTRIES
        for id, entry in registry(place).items()
        for knob in getattr(entry, "knobs", None) or ()
    }
    assert set(NOT_STORED) <= known | knobs
