"""Pods that arrive one after the other and stay: how much of the GPUs is allocated when so much has been asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.pod_policies.base import WHOLE, Ask, PodPolicy, Rooms, Typical
from windtunnel.clusters.pod_policies.fgd import Fragments
from windtunnel.clusters.traces.base import JobTrace, Table, read_table
from windtunnel.errors import BadInput, Problem
from windtunnel.progress import counting

POPULAR = 0.95
"""Share of pods that typical classes cover, the most frequent first (`PodPopularityThreshold` of the experiments)."""
POINTS = tuple(range(10, 131, 10))
"""Arrived loads that are reported, per cent of all GPUs."""


def _unread(table: Table, unit_s: float) -> Jobs:
    raise NotImplementedError


POD_COLUMNS = {
    "cpu": ("cpu_milli",),
    "memory": ("memory_mib",),
    "gpus": ("num_gpu",),
    "share": ("gpu_milli",),
    "models": ("gpu_spec",),
    "name": ("name",),
}
NODE_COLUMNS = {
    "count": ("count",),
    "cpu": ("cpu_milli",),
    "memory": ("memory_mib",),
    "gpus": ("gpus", "gpu"),
    "model": ("gpu_model", "model"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCourse:
    """What became of the pods."""

    pods: int
    refused: int
    allocated: tuple[dict[str, float], ...]
    """Share of all GPUs that is allocated, at each arrived load."""
    fragments: float
    """Share of what is idle at the end that typical pods cannot use."""
    gpus: int
    nodes: int


def read_pods(path: Path) -> list[Ask]:
    """Pods in the order of their file.

    Raises:
        BadInput: the file, or lines of it.
    """
    table = _table(path, POD_COLUMNS, ("cpu", "gpus", "share"))
    cpu, memory = table.numbers("cpu", whole=True), table.numbers("memory", absent=0.0)
    gpus, share = table.numbers("gpus", whole=True), table.numbers("share", whole=True)
    models = table.texts("models") or ("",) * len(table)
    for i in np.flatnonzero((share > WHOLE) | ((gpus > 1) & (share != WHOLE)) | ((gpus > 0) & (share == 0))):
        table.wrong(int(i), "share", share[i], f"must be {WHOLE} with several GPUs, and 1 to {WHOLE} with one")
    _refuse(table)
    return [
        Ask(int(c), int(m), int(g), int(s) if g else 0, tuple(t.split("|")) if t else ())
        for c, m, g, s, t in zip(cpu, memory, gpus, share, models, strict=True)
    ]


def read_nodes(path: Path) -> Rooms:
    """Nodes of a list: how many, their CPU, memory, GPUs and GPU model.

    Raises:
        BadInput: the file, or lines of it.
    """
    table = _table(path, NODE_COLUMNS, ("cpu", "gpus"))
    count = table.numbers("count", low=1, whole=True, absent=1.0).astype(np.int64)
    cpu = table.numbers("cpu", whole=True).astype(np.int64)
    memory = table.numbers("memory", absent=1e9).astype(np.int64)
    gpus = table.numbers("gpus", whole=True).astype(np.int64)
    for i in np.flatnonzero((gpus > 64) | (count > 1_000_000)):
        table.wrong(int(i), "gpus", int(gpus[i]), "must be at most 64 on one of at most 1,000,000 nodes")
    _refuse(table)
    model = np.array(table.texts("model") or ("",) * len(table), dtype=np.str_)
    every = np.repeat(np.arange(len(table)), count)
    width = max(int(gpus.max()), 1)
    left = np.where(np.arange(width)[None, :] < gpus[every][:, None], WHOLE, -1).astype(np.int64)
    return Rooms(cpu[every], memory[every], left, model[every], int(cpu.max()), max(int(gpus.max()), 1) * WHOLE)


def place_pods(pods: list[Ask], rooms: Rooms, policy: PodPolicy, fill: float, seed: int) -> PodCourse:
    """Place pods in random order until they have asked for `fill` times all GPUs; none leaves.

    Args:
        pods: what is drawn from: all of it once, and again at random for what lacks.
        rooms: empty nodes, which are filled.
        policy: where pods go.
        fill: asked GPU over all GPUs.
        seed: of the order, of what is drawn again and of random placements.
    """
    rng = np.random.default_rng([seed, 5])
    typical = typical_pods(pods)
    score = policy.scorer(typical, rng)
    total = int(rooms.gpu_left.sum())
    order = _workload(pods, total * fill, rng)
    asked, given, refused, reached = 0, 0, 0, 0
    marks: list[dict[str, float]] = []
    done = [0]
    with counting("pods", lambda: (float(done[0]), float(len(order))), "jobs.nodes") as pace:
        for ask in order:
            pace.check()
            done[0] += 1
            asked += ask.gpu
            node, gpu = _choose(rooms, ask, score)
            if node < 0:
                refused += 1
            else:
                rooms.take(node, ask, gpu)
                given += ask.gpu
            while reached < len(POINTS) and asked >= POINTS[reached] / 100 * total:
                marks.append({"arrived_load": POINTS[reached] / 100, "share": given / total})
                reached += 1
    while reached < len(POINTS) and POINTS[reached] / 100 <= fill + 1e-9:
        marks.append({"arrived_load": POINTS[reached] / 100, "share": given / total})
        reached += 1
    fragments = Fragments(typical)
    lost = sum(fragments.of(int(c), g, str(m)) for c, g, m in zip(rooms.cpu, rooms.gpu, rooms.model, strict=True))
    idle = int(rooms.gpu_left.sum())
    return PodCourse(
        pods=len(order),
        refused=refused,
        allocated=tuple(marks),
        fragments=lost / idle if idle else 0.0,
        gpus=total // WHOLE,
        nodes=len(rooms.cpu),
    )


def typical_pods(pods: list[Ask]) -> Typical:
    """The most frequent classes, whatever memory they ask for, until they cover `POPULAR`, with their shares."""
    found, covered = [], 0
    for ask, many in Counter(replace(ask, memory=0) for ask in pods).most_common():
        found.append((ask, many))
        covered += many
        if covered >= POPULAR * len(pods):
            break
    return tuple((ask, many / covered) for ask, many in found)


def _workload(pods: list[Ask], wanted: float, rng: np.random.Generator) -> list[Ask]:
    order = [pods[i] for i in rng.permutation(len(pods))]
    asked = sum(ask.gpu for ask in order)
    if not asked:
        raise BadInput(Problem("jobs.trace", "has no pod that asks for a GPU"))
    more = []
    while asked < wanted:
        again = pods[int(rng.integers(len(pods)))]
        more.append(again)
        asked += again.gpu
    both = order + more
    mixed = [both[i] for i in rng.permutation(len(both))]
    asked, out = 0, []
    for ask in mixed:
        if asked >= wanted:
            break
        out.append(ask)
        asked += ask.gpu
    return out


_Score = Callable[[Rooms, Ask, Ints], tuple[Ints, Ints]]


def _choose(rooms: Rooms, ask: Ask, score: _Score) -> tuple[int, int]:
    """Node and GPU; of equal nodes the first, as the simulator of FGD does. Node −1: nowhere."""
    nodes = np.flatnonzero(rooms.holds(ask))
    if not len(nodes):
        return -1, -1
    points, gpus = score(rooms, ask, nodes)
    at = int(points.argmax())
    return int(nodes[at]), int(gpus[at])


def _table(path: Path, columns: Mapping[str, tuple[str, ...]], required: tuple[str, ...]) -> Table:
    return read_table(path, JobTrace("", columns, required, _unread))


def _refuse(table: Table) -> None:
    if table.problems:
        raise BadInput(table.problems[:20])
    if not len(table):
        raise BadInput(Problem("jobs.trace", "has no lines", table.file))
