"""V-shaped orders made by repeating one micro-batch's pattern, and weight gradients put into the gaps of any order.

Source: Qi et al. 2024, Pipeline Parallelism with Controllable Memory, https://arxiv.org/abs/2405.15362: repeat a
building block at a fixed interval; the lifespan of activations in the block sets the memory. A micro-batch fills six
slots on each stage (F, B, W of two chunks), so the interval is six; hops of h1 … h4 slots on the four legs (down, up,
back down, back up) keep activations for (p − 1)(h1 + h2 + h3 + h4) slots in all, the memory of that many twelfths of
micro-batches. Each turn at an end of the pipeline waits the fewest slots with which no two passes of a stage collide.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.schedules.evaluate import durations, evaluate
from windtunnel.schedules.order import table as make_table
from windtunnel.schedules.order import v_placement
from windtunnel.schedules.table import B, F, InstructionTable, ScheduleCosts, W
from windtunnel.schedules.validate import dependencies

_INTERVAL = 6

FULL_MEMORY = (3, 3, 3, 3)
"""Twelve slots a hop: the memory of 1F1B's first stage, and two slots of slack on every hop."""
HALF_MEMORY = (1, 2, 1, 2)
LEAST_MEMORY = (1, 1, 1, 1)


def _starts(p: int, hops: tuple[int, int, int, int], turns: tuple[int, ...]) -> Ints:
    """Slot of the first micro-batch's F down, F up, B down and B up on each stage, shape (4, p)."""
    s, last = np.arange(p), p - 1
    up = hops[0] * last + turns[0]
    back_down = up + hops[1] * last + turns[1]
    back_up = back_down + hops[2] * last + turns[2]
    return np.stack([hops[0] * s, up + hops[1] * (last - s), back_down + hops[2] * s, back_up + hops[3] * (last - s)])


def _weight_slots(start: Ints) -> Ints:
    """First free slot after each of the two backwards, given the slots of F and B; shape (2, p)."""
    found = np.empty((2, start.shape[1]), np.int64)
    for s, taken in enumerate((start % _INTERVAL).T.tolist()):
        free = [slot for slot in range(_INTERVAL) if slot not in taken]
        waits = [[(slot - int(b) - 1) % _INTERVAL + 1 for slot in free] for b in start[2:, s]]
        swap = waits[0][1] + waits[1][0] < waits[0][0] + waits[1][1]
        found[:, s] = start[2:, s] + [waits[0][int(swap)], waits[1][1 - int(swap)]]
    return found


def v_block(schedule: str, p: int, m: int, hops: tuple[int, int, int, int] = FULL_MEMORY) -> InstructionTable:
    """The repeated block: passes of a stage sorted by their slot, weight gradients in the two slots that are left."""
    for turns in sorted(product(range(1, _INTERVAL + 1), repeat=3), key=sum):
        start = _starts(p, hops, turns)
        if (np.diff(np.sort(start % _INTERVAL, axis=0), axis=0) > 0).all():
            break
    else:
        raise AssertionError(f"hops {hops} collide on {p} stages")
    begin = np.concatenate([start, _weight_slots(start)])
    slot = (begin[:, :, None] + _INTERVAL * np.arange(m)).transpose(1, 0, 2).reshape(p, -1)
    at = np.argsort(slot, axis=1, kind="stable")
    kind = np.repeat(np.array([F, F, B, B, W, W], np.int8), m)
    chunk = np.repeat(np.array([0, 1, 1, 0, 1, 0], np.int32), m)
    micro_batch = np.tile(np.arange(m, dtype=np.int32), 6)
    return make_table(schedule, m, 2, kind[at], micro_batch[at], chunk[at], v_placement(p), True)


def best_block(
    block: InstructionTable, costs: ScheduleCosts, max_live: Floats, kept_after_backward: float
) -> InstructionTable:
    """The shortest of a block and its variants with weight gradients in gaps of several sizes."""
    filled = [place_weights(block, costs, max_live, kept_after_backward, gap) for gap in (1.0, 0.5, 0.0)]
    return min([block, *filled], key=lambda table: evaluate(table, costs)[2])


def place_weights(
    table: InstructionTable,
    costs: ScheduleCosts,
    max_live: Floats,
    kept_after_backward: float,
    gap: float,
) -> InstructionTable:
    """Keep the order of F and B and run each weight gradient as late as gaps and memory allow.

    Args:
        table: a valid split-backward table.
        costs: seconds of each instruction and of a hop between stages.
        max_live: micro-batches of the whole stage, shape (p,); a forward that would exceed it runs pending W first.
        kept_after_backward: part of an activation that stays from B to W.
        gap: a W goes into an idle gap of at least this part of its duration.
    """
    stages = _WeightPlacement(table, costs, kept_after_backward, gap).run(max_live)
    rows = np.array([[*stage.order, *stage.pending] for stage in stages], np.int64)
    columns = (table.kind[rows], table.micro_batch[rows], table.chunk[rows])
    return make_table(table.schedule, table.m, table.v, *columns, table.placement, True)


@dataclass(slots=True)
class _Stage:
    """One stage while its weight gradients are placed."""

    passes: list[int]
    """Rows of its F and B, in order."""
    max_chunks: float
    """Most activations of one chunk that it may hold."""
    done: int = 0
    """How many of its passes have run."""
    free_s: float = 0.0
    live_chunks: float = 0.0
    pending: deque[int] = field(default_factory=deque)
    """Rows of W that may run, oldest first."""
    order: list[int] = field(default_factory=list)
    """Rows in the order in which they run."""


class _WeightPlacement:
    """Runs the passes of all stages as early as possible and puts weight gradients between them."""

    def __init__(self, table: InstructionTable, costs: ScheduleCosts, kept_after_backward: float, gap: float) -> None:
        self.table, self.kept, self.gap = table, kept_after_backward, gap
        self.comm_s = costs.comm_s
        self.took_s = durations(table, costs).tolist()
        self.needs = dependencies(table).tolist()
        self.kind, self.stage_of = table.kind.tolist(), table.stage.tolist()
        self.weight_of = {self.needs[row]: row for row in range(len(table)) if self.kind[row] == W}
        self.end_s = [-1.0] * len(table)

    def run(self, max_live: Floats) -> list[_Stage]:
        """The stages after all of their passes have run."""
        ptr = self.table.stage_ptr.tolist()
        stages = [
            _Stage(
                passes=[row for row in range(ptr[s], ptr[s + 1]) if self.kind[row] != W],
                max_chunks=float(max_live[s]) * self.table.v + 1e-9,
            )
            for s in range(self.table.p)
        ]
        waiting: dict[int, int] = {}  # row that has not ended → stage that waits for it
        todo = list(range(self.table.p))
        while todo:
            s = todo.pop()
            stage = stages[s]
            while stage.done < len(stage.passes):
                row = stage.passes[stage.done]
                if self.needs[row] >= 0 and self.end_s[self.needs[row]] < 0.0:
                    waiting[self.needs[row]] = s
                    break
                self._pass(s, stage, row)
                if row in waiting:
                    todo.append(waiting.pop(row))
        return stages

    def _pass(self, s: int, stage: _Stage, row: int) -> None:
        """Run one F or B, after the weight gradients that fit in the gap before it or must make room for it."""
        before = self.needs[row]
        ready_s = 0.0 if before < 0 else self.end_s[before] + (self.comm_s if self.stage_of[before] != s else 0.0)
        while stage.pending:
            weight, idle_s = stage.pending[0], ready_s - stage.free_s
            fits = idle_s > 0.0 and idle_s >= self.gap * self.took_s[weight] * (1 - 1e-9)
            full = self.kind[row] == F and stage.live_chunks + 1.0 > stage.max_chunks
            if not (fits or full):
                break
            stage.order.append(stage.pending.popleft())
            stage.free_s += self.took_s[weight]
            stage.live_chunks -= self.kept
        self.end_s[row] = stage.free_s = max(stage.free_s, ready_s) + self.took_s[row]
        stage.order.append(row)
        if self.kind[row] == F:
            stage.live_chunks += 1.0
        else:
            stage.live_chunks -= 1.0 - self.kept
            stage.pending.append(self.weight_of[row])
        stage.done += 1
