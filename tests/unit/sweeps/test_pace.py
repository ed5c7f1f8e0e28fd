"""The estimate of what is left, on sweeps whose cells cost known unlike amounts, in made-up time."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from windtunnel.sweeps.axes import read_axes
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.executors import Task
from windtunnel.sweeps.order import block_size, in_mixed_order
from windtunnel.sweeps.pace import Pace


@dataclass
class Clock:
    """Seconds that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def ratios(
    definition: Definition, cost: Callable[[dict[str, float], random.Random], float], processes: int, seed: int
) -> dict[float, float]:
    """Estimate over what it then took, where 10, 25, 50 and 75 % of the time had passed.

    The others start once the first one is done with its first cell. A start takes a second, and the first cell of each
    process two seconds more than it would.
    """
    noise = random.Random(seed)
    cells = list(definition.cells())
    tasks = in_mixed_order([Task(cell, 1, i) for i, cell in enumerate(cells)], definition)
    clock = Clock()
    pace = Pace(len(tasks), processes, clock)
    told: list[tuple[float, float]] = []
    ready = [(1.0 if i == 0 else math.inf, i, -1, 0.0, True) for i in range(processes)]
    heapq.heapify(ready)
    given = 0
    while ready:
        clock.now, who, number, seconds, cold = heapq.heappop(ready)
        if number >= 0:
            pace.note(seconds, cold=cold)
            left = pace.left_s()
            if left is not None:
                told.append((clock.now, left))
            if cold and who == 0:
                ready = [(clock.now + 1.0, i, -1, 0.0, True) for i in range(1, processes)]
        if given < len(tasks) and clock.now < math.inf:
            first = number < 0
            own = cost(dict(tasks[given].cell.settings), noise) + (2.0 if first else 0.0)
            heapq.heappush(ready, (clock.now + own, who, given, own, first))
            given += 1
    whole = told[-1][0]
    out = {}
    for share in (0.1, 0.25, 0.5, 0.75):
        at, left = min(told, key=lambda one: abs(one[0] - share * whole))
        out[share] = left / (whole - at)
    return out


def sweep(verb: str, *vary: str) -> Definition:
    return Definition(verb=verb, scenario={}, folder="/", axes=read_axes(vary, []))


def training(x: dict[str, float], noise: random.Random) -> float:
    if x["pp"] * x["tp"] > x["nodes"]:
        return 0.002  # not allowed
    return 0.04 * x["pp"] ** 0.5 * (x["batch"] / 128) ** 0.7 * noise.lognormvariate(0.0, 0.3)


def requests(x: dict[str, float], noise: random.Random) -> float:
    return 0.1 * x["rate"] * (4.0 if x["prefix"] else 1.0) * noise.lognormvariate(0.0, 0.2)


TRAINING = sweep("train", "tp=1,2,4,8", "mbs=1,2,4", "pp=1,2,4,8,16", "nodes=8..128:x2", "batch=128..2048:x2")
SERVING = sweep("serve", "rate=1..32:16", "prefix=[true, false]", "n=1..8:+1")


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize(("definition", "cost"), [(TRAINING, training), (SERVING, requests)])
def test_the_estimate_holds_from_a_quarter_on(
    definition: Definition, cost: Callable[[dict[str, float], random.Random], float], processes: int
) -> None:
    """Within 20 % of what it then takes, with cells a hundred times as dear as others and processes that warm up."""
    for seed in range(5):
        found = ratios(definition, cost, processes, seed)
        assert all(abs(found[share] - 1.0) <= 0.2 for share in (0.25, 0.5, 0.75)), (seed, found)


def test_nothing_is_told_before_anything_is_known() -> None:
    pace = Pace(3, 2, Clock())
    assert pace.left_s() is None
    pace.note(5.0, cold=True)
    assert pace.left_s() is None


def test_nothing_is_left_when_all_is_done() -> None:
    pace = Pace(2, 1, Clock())
    pace.note(5.0, cold=True)
    pace.note(1.0, cold=False)
    assert pace.left_s() == 0.0


def test_blocks_are_whole_axes_and_many() -> None:
    """Neighbours that share prices stay together, and a sweep has enough blocks for the first to stand for all."""
    size = block_size(TRAINING)
    assert size == 5 and len(TRAINING) // size >= 120
    tasks = in_mixed_order([Task(cell, 1, i) for i, cell in enumerate(TRAINING.cells())], TRAINING)
    starts = [i for i in range(1, len(tasks)) if tasks[i].block != tasks[i - 1].block]
    assert np.all(np.diff([0, *starts]) == size)
    assert sorted(task.number for task in tasks) == list(range(len(TRAINING)))
    assert [task.number for task in tasks] != list(range(len(TRAINING)))
    assert block_size(SERVING) == 1


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.75])
def test_any_part_of_the_order_stands_for_the_whole(share: float) -> None:
    """Each value of each axis has its part in what is done so far, within three blocks."""
    for definition in (TRAINING, SERVING):
        tasks = in_mixed_order([Task(cell, 1, i) for i, cell in enumerate(definition.cells())], definition)
        done = tasks[: int(share * len(tasks))]
        for axis, values in ((a.fields[0], a.values) for a in definition.axes):
            for (value,) in values:
                count = sum(dict(task.cell.settings)[axis] == value for task in done)
                assert abs(count - len(done) / len(values)) <= 3 * block_size(definition)
