"""Formulas below a prediction, on a grid of small inputs that no stored scenario reaches: equal to stored numbers.

Collectives over one and several domains with ranks that are no power of two, schedules of few stages and chunks, the
operators of a layer under every kind of parallelism. `formulas.json` holds one number for each input; `make goldens`
writes it anew, and the changelog says why.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_digests import checksum, differences

from windtunnel import api, catalog, schedules
from windtunnel.network import NetworkModel, placement
from windtunnel.network.collectives import ALGORITHMS
from windtunnel.network.collectives.all_to_all import AllToAllLoad
from windtunnel.network.collectives.base import OPS
from windtunnel.schedules import ScheduleCosts, ScheduleError, ScheduleLimits
from windtunnel.specs.cluster import ClusterRef
from windtunnel.training.stage_costs.local_block import local_block

pytestmark = pytest.mark.golden

STORED = Path(__file__).with_name("formulas.json")
REGENERATE = bool(os.environ.get("WINDTUNNEL_REGENERATE"))
SIZES = np.array([960.0, 3e5, 64e6])
PLACES = [
    (1, 1, 8),
    (2, 1, 8),
    (3, 1, 8),
    (8, 1, 8),
    (6, 1, 4),
    (16, 1, 8),
    (12, 2, 8),
    (3, 8, 8),
    (64, 1, 8),
    (5, 3, 8),
]
"""Ranks, distance between neighbours, devices of a domain."""
Found = Iterator[tuple[str, Any]]


def plain(value: Any) -> Any:
    """Lists, dictionaries, numbers and words of a record of arrays."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in (value if isinstance(value, list | tuple) else sorted(value))]
    if isinstance(value, Enum):
        return value.name
    return value if isinstance(value, bool | int | float | str) or value is None else ""


def traffic() -> Found:
    """Bytes and hops of every algorithm."""
    for id, algorithm in sorted(ALGORITHMS.items()):
        for op, where in product(sorted(algorithm.ops), PLACES):
            yield f"{id} {op} {where}", algorithm.traffic(op, SIZES, placement(*where))


def collectives() -> Found:
    """Seconds of every operation as the vendor's library runs it."""
    for device, nodes in (("h100-sxm-80gb", 8), ("a100-sxm-80gb", 8), ("b200-sxm-180gb", 4), ("mi300x", 4)):
        network = NetworkModel(catalog.resolve_cluster(ClusterRef(device=device, nodes=nodes, devices_per_node=8)))
        for op, where in product(OPS, PLACES):
            yield f"{device} {op} {where}", network.collective(op, SIZES, placement(*where))
        for busiest, share in ((1.3, 1.0), (1.0, 0.4)):
            load = AllToAllLoad(imbalance=busiest, unique_out_fraction=share, two_level=share < 1.0)
            yield f"{device} {load}", network.collective("all_to_all", SIZES, placement(16, 1, 8), load=load)
        yield f"{device} p2p", [network.p2p(SIZES, crosses) for crosses in (False, True)]


def orders() -> Found:
    """Every schedule of one to five stages, with equal and unequal costs, with room and without."""
    for id, p, m, v in product(schedules.list_ids(), (1, 2, 3, 4, 5), (1, 2, 4, 7, 10), (1, 2, 3)):
        name = f"{id} p={p} m={m} v={v}"
        each = np.arange(1.0, 1.0 + p * v).reshape(p, v) / (p * v)
        costs = ScheduleCosts(each, 1.7 * each, 0.6 * each[::-1], 0.15)
        try:
            table = schedules.build(id, p, m, v)
        except ScheduleError as problem:
            yield name, [each.field for each in problem.problems]
            continue
        yield name, [table, schedules.evaluate(table, costs), schedules.live_activations(table, 0.4)]
        if schedules.describe(id).uses_costs and m in (4, 7):
            for limits in (None, ScheduleLimits(max_live=np.full(p, 0.5 * p + 0.75), kept_after_backward=0.5)):
                yield f"{name} {limits is None}", schedules.build(id, p, m, v, costs, limits)


DENSE, MOE = "meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1"
CUT = {"ep": 2, "etp": 2, "tp": 2}
DISPATCHERS, TOKENS = ("alltoall", "allgather"), ("replicated", "dropped")
EXPERTS = ({"ep": 1}, {"ep": 8}, {"ep": 4, "tp": 2}, CUT, {"etp": 4, "tp": 4}, {"ep": 8, "cp": 2})
PLANS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *[(DENSE, {"tp": tp, "sp": sp}, {}) for tp, sp in ((1, False), (2, True), (8, True), (4, False))],
    *[(DENSE, {"cp": 4, "cp_kind": kind}, {}) for kind in ("ring", "all_to_all", "all_gather")],
    (DENSE, {"cp": 8, "cp_kind": "hybrid", "cp_all_to_all": 2}, {}),
    *[(DENSE, {"tp": 2}, {"precision": each}) for each in ("fp8", "fp16", "fp32")],
    *[(DENSE, {"recompute": each}, {}) for each in ("none", "selective", "full")],
    *[(MOE, plan, {}) for plan in EXPERTS],
    *[(MOE, CUT, {"moe_dispatcher": each}) for each in DISPATCHERS],
    *[(MOE, CUT | {"sp": False, "expert_tokens": each}, {}) for each in TOKENS],
]


def operators() -> Found:
    """Operators of a layer, forward and backward, as the ranks of a plan run them."""
    for model, plan, training in PLANS:
        source = {
            "model": model,
            "cluster": {"device": "b200-sxm-180gb", "nodes": 8, "devices_per_node": 8},
            "training": {"seq_len": 4096, "global_batch": 256, **training},
            "plan": plan,
        }
        x = api.prepare(source)[0]
        graph = x.stages.graph
        block = graph.blocks[graph.depth[-1]]
        found = local_block(block, x.model, x.training, x.plan, float(x.plan.mbs * x.training.seq_len))
        yield f"{model} {json.dumps([plan, training])}", found


GROUPS = {each.__name__: each for each in (traffic, collectives, orders, operators)}


@pytest.mark.parametrize("group", GROUPS)
def test_formulas_give_the_stored_numbers(group: str) -> None:
    found = {name: float(f"{checksum(plain(value)) or 0.0:.12g}") for name, value in GROUPS[group]()}
    stored = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    if REGENERATE:
        stored[group] = found
        lines = [f"{json.dumps(name)}: {json.dumps(stored[name])}" for name in sorted(stored)]
        STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    assert differences(found, stored[group]) == {}
