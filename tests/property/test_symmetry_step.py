"""The step's rank classes: stages are the coarsest equitable partition, and the quotient step equals the full one.

The full expansion below knows nothing of classes: every rank has its own streams and memory, two ranks share a NIC, and
whatever joins ranks (a layer's collectives, a hop, a data-parallel collective) is one task on the streams of them all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from equitable_partition import equitable_partition

from windtunnel.arrays import Floats, Int32s, Rows
from windtunnel.engine import simulate
from windtunnel.program.tables import Resources, Streams, TaskTable
from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import step_time
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.task_builder import (
    RATES,
    S_COMPUTE,
    S_GATHER,
    S_REDUCE,
    STREAMS,
    T_B,
    T_BARRIER,
    T_F,
    T_GATHER,
    T_REDUCE,
    T_SEND,
    T_W,
)

pytestmark = pytest.mark.property

RANKS_PER_NIC, PER_NODE = 2, 8
RECEIVE = len(STREAMS)
"""Streams of a rank: those of the step, then one receiver for each stage that sends to it."""

PLANS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "interleaved tp2 pp4 dp8": (8, 64, {"tp": 2, "pp": 4, "vpp": 2, "zero": 1}),
    "interleaved tp4 pp4 dp4": (8, 32, {"tp": 4, "pp": 4, "vpp": 4, "zero": 1}),
    "interleaved tp2 cp2 pp2 dp4": (4, 16, {"tp": 2, "cp": 2, "pp": 2, "vpp": 4, "zero": 1}),
    "1f1b tp1 pp8 dp4": (4, 32, {"pp": 8, "zero": 0}),
    "split backward pp4": (4, 64, {"tp": 2, "pp": 4, "zero": 1, "schedule": "zb_h1"}),
    "fsdp tp2 pp2": (2, 16, {"tp": 2, "pp": 2, "zero": 3}),
    "blocking hops": (4, 32, {"tp": 2, "pp": 4, "vpp": 2, "zero": 1, "overlap": {"p2p": False}}),
}
INTERLEAVED = [name for name in PLANS if name.startswith(("interleaved", "1f1b"))]


def _prepared(name: str) -> PreparedStep:
    nodes, batch, plan = PLANS[name]
    source = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {
            "device": "h100-sxm-80gb",
            "nodes": nodes,
            "devices_per_node": PER_NODE,
            "scale_out": {"nics_per_node": PER_NODE // RANKS_PER_NIC, "nic_bytes_per_s": "200 Gb/s"},
        },
        "training": {"seq_len": 4096, "global_batch": batch, "precision": "bf16", "framework": "megatron_core"},
        "plan": {"mbs": 1, **plan},
    }
    return prepare(source)[0]


def _mesh(x: PreparedStep) -> tuple[Rows, Rows]:
    """Stage of every rank, and its place within the stage (tensor, context and data coordinates)."""
    mesh = x.stages.mesh
    rank = np.arange(x.cluster.num_devices)
    stage = rank // mesh.strides["pp"] % x.plan.pp
    within = np.zeros(len(rank), np.int64)
    for axis in ("dp", "cp", "tp"):
        within = within * mesh.sizes[axis] + rank // mesh.strides[axis] % mesh.sizes[axis]
    return stage, within


def _incidence(x: PreparedStep) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """(rank, resource) pairs with the kind of use, and what tells resources apart: memory, NIC, groups, hops."""
    stage, within = _mesh(x)
    tp, cp = x.plan.tp, x.plan.cp
    at = {(int(s), int(w)): r for r, (s, w) in enumerate(zip(stage, within, strict=True))}
    pairs: list[tuple[int, int]] = []
    kinds: list[int] = []
    colours: list[int] = []
    known: dict[tuple[Any, ...], int] = {}

    def use(rank: int, colour: int, key: tuple[Any, ...], kind: int = 0) -> None:
        if key not in known:
            known[key] = len(known)
            colours.append(colour)
        pairs.append((rank, known[key]))
        kinds.append(kind)

    for r in range(len(stage)):
        s, w = int(stage[r]), int(within[r])
        use(r, 0, ("memory", r))
        use(r, 1, ("nic", r // RANKS_PER_NIC))
        use(r, 2, ("switch", r // PER_NODE))
        use(r, 3, ("layer", s, w // (tp * cp)))
        use(r, 4, ("data", s, w % tp))
    depth = x.schedule.placement[:, 0].tolist()
    for source, target in pairwise(depth):
        if source != target:
            for w in range(len(stage) // x.plan.pp):
                use(at[source, w], 5, ("hop", source, target, w), 0)
                use(at[target, w], 5, ("hop", source, target, w), 1)
    return pairs, kinds, colours


def _colours(x: PreparedStep) -> Rows:
    """What a rank runs, by content: stages with equal layers start alike, only the ends stand out."""
    stage, _ = _mesh(x)
    seen: dict[bytes, int] = {}
    of_stage = []
    for s in range(x.plan.pp):
        mine = np.flatnonzero(x.schedule.placement[:, 0] == s)
        content = np.concatenate([x.stages.seconds[:, mine].ravel(), x.stages.dense_params[mine]]).round(12).tobytes()
        of_stage.append(seen.setdefault(content, len(seen)))
    return np.array(of_stage)[stage]


@pytest.mark.parametrize("name", INTERLEAVED)
def test_stages_are_the_coarsest_equitable_partition(name: str) -> None:
    x = _prepared(name)
    pairs, kinds, colours = _incidence(x)
    start = _colours(x)
    assert len(set(start.tolist())) <= 3 < x.plan.pp or x.plan.pp <= 3  # the partition has to be found, not given
    ranks, resources, multiplicity = equitable_partition(pairs, start, resource_colours=colours, incidence_kinds=kinds)
    stage, _ = _mesh(x)
    assert len(set(ranks.tolist())) == x.plan.pp
    assert len(set(zip(ranks.tolist(), stage.tolist(), strict=True))) == x.plan.pp
    nics = {int(resources[j]) for ((_, j),) in zip(pairs, strict=True) if colours[j] == 1}
    assert sorted(multiplicity[:, sorted(nics)].sum(axis=0).tolist()) == [RANKS_PER_NIC] * len(nics)


def test_a_straggler_splits_only_what_it_touches() -> None:
    x = _prepared("interleaved tp2 pp4 dp8")
    pairs, kinds, colours = _incidence(x)
    start = _colours(x)
    start[5] = 99
    ranks, _, _ = equitable_partition(pairs, start, resource_colours=colours, incidence_kinds=kinds)
    assert x.plan.pp < len(set(ranks.tolist())) < len(ranks)
    assert np.sum(ranks == ranks[5]) == 1


@dataclass
class _Full:
    """Tasks of every rank, in launch order."""

    alone: list[float]
    weight: list[float]
    streams: list[list[int]]
    deps: list[list[int]]
    rates: list[dict[int, float]]


def _full(x: PreparedStep, slow_rank: int | None = None) -> tuple[TaskTable, Streams, Resources]:
    """The step of every rank apart. Rates: SMs, memory and scale-up of each rank, then the NICs."""
    old, program = x.program.tasks, x.program
    stage, within = _mesh(x)
    n, group = len(stage), x.plan.tp * x.plan.cp
    width = RECEIVE + x.plan.pp
    at = {(int(s), int(w)): r for r, (s, w) in enumerate(zip(stage, within, strict=True))}
    per_stage = n // x.plan.pp
    places = np.arange(per_stage)
    depth = x.schedule.placement[:, 0].astype(int)
    full = _Full([], [], [], [], [])
    made: list[list[tuple[int, frozenset[int]]]] = []
    for i in range(len(old)):
        s, code = divmod(int(old.stream_idx[i]), len(STREAMS))
        tag = int(old.tag[i])
        peer = -1
        if tag in (T_F, T_B, T_W):  # layers hold collectives of the tensor and context axes
            members = [places[places // group == d] for d in range(per_stage // group)]
        elif tag in (T_REDUCE, T_GATHER):
            members = [places[places % x.plan.tp == t] for t in range(x.plan.tp)]
        elif tag == T_BARRIER:
            members = [places]
        else:
            members = [places[w : w + 1] for w in places]
        if tag == T_SEND:
            part = int(program.virtual_stage[program.row[i]])
            peer = int(depth[part + 1 if x.schedule.kind[program.row[i]] == T_F else part - 1])
        made.append([])
        for who in members:
            ranks = [at[s, int(w)] for w in who]
            streams = [r * width + code for r in ranks]
            if peer >= 0:
                streams += [at[peer, int(w)] * width + RECEIVE + s for w in who]
            rates: dict[int, float] = defaultdict(float)
            for j in range(old.rate_ptr[i], old.rate_ptr[i + 1]):
                kind, amount = int(old.rate_idx[j]) % len(RATES), float(old.rate_work[j])
                for r in ranks:
                    rates[3 * n + r // RANKS_PER_NIC if kind == 3 else 3 * r + kind] += amount
            slower = 1.5 if slow_rank in ranks and code == S_COMPUTE else 1.0
            made[i].append((len(full.alone), frozenset(int(w) for w in who)))
            full.alone.append(float(old.alone_s[i]) * slower)
            full.weight.append(float(old.weight[i]))
            full.streams.append(streams)
            full.rates.append(rates)
            full.deps.append([])
    for i in range(len(old)):
        for d in old.dep_idx[old.dep_ptr[i] : old.dep_ptr[i + 1]].tolist():
            for task, who in made[i]:
                full.deps[task] += [other for other, whom in made[d] if who & whom]
    capacity = np.empty(3 * n + n // RANKS_PER_NIC)
    quotient = program.resources.capacity[:4]
    capacity[: 3 * n] = np.tile(quotient[:3], n)
    capacity[3 * n :] = RANKS_PER_NIC * quotient[3]
    return _tables(full, n, width, capacity)


def _tables(full: _Full, n: int, width: int, capacity: Floats) -> tuple[TaskTable, Streams, Resources]:
    def csr(rows: list[list[int]]) -> tuple[Rows, Int32s]:
        flat = [value for row in rows for value in row]
        return np.cumsum([0, *map(len, rows)]).astype(np.int64), np.array(flat, np.int32)

    count = len(full.alone)
    zero = np.zeros(count, np.int32)
    rate_ptr, rate_idx = csr([list(rates) for rates in full.rates])
    work = np.array([value for rates in full.rates for value in rates.values()])
    stream_ptr, stream_idx = csr(full.streams)
    dep_ptr, dep_idx = csr(full.deps)
    tasks = TaskTable(
        alone_s=np.array(full.alone),
        weight=np.array(full.weight),
        rank_class=zero,
        tag=zero,
        stream_ptr=stream_ptr,
        stream_idx=stream_idx,
        dep_ptr=dep_ptr,
        dep_idx=dep_idx,
        rate_ptr=rate_ptr,
        rate_idx=rate_idx,
        rate_work=work,
        slot_pool=np.full(count, -1, np.int32),
        slots=zero,
        min_slots=zero,
        waves=zero,
    )
    streams = Streams(np.zeros(n * width, np.int32), np.repeat(np.arange(n, dtype=np.int32), width))
    return tasks, streams, Resources(capacity)


@pytest.mark.parametrize("name", PLANS)
def test_quotient_equals_full_expansion(name: str) -> None:
    x = _prepared(name)
    tasks, streams, resources = _full(x)
    assert len(tasks) > 2 * len(x.program.tasks)
    assert simulate(tasks, streams, resources).makespan_s == pytest.approx(step_time(x), rel=1e-9)


def test_data_parallel_traffic_meets_on_the_nics() -> None:
    """The comparison covers contention: without the NICs' limits the full step would be shorter."""
    x = _prepared("interleaved tp2 pp4 dp8")
    tasks, streams, resources = _full(x)
    crossing = np.isin(x.program.tasks.stream_idx % len(STREAMS), (S_REDUCE, S_GATHER))
    owner = np.repeat(np.arange(len(x.program.tasks)), np.diff(x.program.tasks.rate_ptr))
    assert np.any(crossing[owner] & (x.program.tasks.rate_idx % len(RATES) == 3))
    timeline = simulate(tasks, streams, resources)
    assert np.any(timeline.end_s - timeline.start_s > tasks.alone_s * (1 + 1e-6))
    free = Resources(np.where(np.arange(len(resources.capacity)) < 3 * x.cluster.num_devices, resources.capacity, 1e18))
    assert simulate(tasks, streams, free).makespan_s < timeline.makespan_s


def test_full_expansion_feels_one_slow_rank() -> None:
    """One rank of 64 that computes half as fast again as slowly is felt by all, and the quotient cannot know."""
    x = _prepared("interleaved tp2 pp4 dp8")
    assert simulate(*_full(x, slow_rank=9)).makespan_s > 1.02 * step_time(x)
