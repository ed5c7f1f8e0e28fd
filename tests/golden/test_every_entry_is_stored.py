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
NOT_STORED: dict[str, str] = {
    "text_to_sql": "needs a file of queries: tests/unit/programs/test_agent_strategies.py",
    "mlp-digits": "needs scikit-learn's digits: tests/unit/learning/test_tasks.py",
    "torch-module": "needs PyTorch: tests/unit/learning/test_torch_module.py",
    "ngram-lm.file": "a text of one's own: tests/unit/learning/test_tasks.py",
    "delayed_nesterov": "what delayed-nesterov steps with",
    **{
        f"{outer}.{knob}": "no scenario sets it: knobs of co2, diloco and the like do"
        for outer, knobs in {
            "average": ("lr",),
            "heavy_ball": ("lr", "momentum", "gap_penalty", "clip"),
            "nesterov": ("lr", "momentum"),
        }.items()
        for knob in knobs
    },
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


IDLE = {
    f"{policy}.newcomers": "a policy that fixes who runs in a round reads no newcomers"
    for policy in ("fifo", "fifo_perf", "shockwave", "themis")
} | {
    "shockwave.reset_s": "it decides in every round",
    "themis.reset_s": "it decides in every round",
    "berrut.liars": "it changes what is refused and what is said, and no time",
}
"""Entry and knob → why no figure moves with it, although a scenario may give it."""


@cache
def acting(command: str) -> tuple[set[str], set[str]]:
    """`id.knob` of stored results that differ from those without the knob, and of results that do not."""
    found = json.loads((COMMANDS / f"{command}.json").read_text("utf-8"))
    results = {
        (case["base"], json.dumps(case["set"], sort_keys=True)): found["bases"][case["base"]]["digest"] | case["digest"]
        for case in found["cases"].values()
    }
    moved: set[str] = set()
    idle: set[str] = set()
    for case in found["cases"].values():
        own = results[case["base"], json.dumps(case["set"], sort_keys=True)]
        for path, id, knob, without in _without_a_knob(case["set"]):
            other = results.get((case["base"], json.dumps(case["set"] | {path: without}, sort_keys=True)))
            if other is not None:
                (idle if other == own else moved).add(f"{id}.{knob}")
    return moved, idle - moved


def _without_a_knob(settings: dict[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """Path, id and knob of each entry that settings name, and the entry as it is without this knob."""
    for path, value in settings.items():
        if isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), dict):
            ((id, knobs),) = value.items()
            for knob in knobs:
                rest = {name: each for name, each in knobs.items() if name != knob}
                yield path, id, knob, {id: rest} if rest else id


@pytest.mark.parametrize("command", ["cluster", "reason", "run", "serve"])
def test_a_knob_moves_a_figure(command: str) -> None:
    """A case whose result equals that of the entry's defaults says nothing about the knob that it sets."""
    idle = acting(command)[1] - IDLE.keys()
    assert idle == set(), f"in {command}.json of tests/golden, set these so that they act: {', '.join(sorted(idle))}"
