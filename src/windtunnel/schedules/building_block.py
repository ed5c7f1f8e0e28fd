"""V-shaped orders made by repeating one micro-batch's pattern, and weight gradients put into the gaps of any order.

Source: Qi et al. 2024, Pipeline Parallelism with Controllable Memory, https://arxiv.org/abs/2405.15362: repeat a
building block at a fixed interval; the lifespan of activations in the block sets the memory. A micro-batch fills six
slots on each stage (F, B, W of two chunks), so the interval is six; hops of h1 … h4 slots on the four legs (down, up,
back down, back up) keep activations for (p − 1)(h1 + h2 + h3 + h4) slots in all, the memory of that many twelfths of
micro-batches. Each turn at an end of the pipeline waits the fewest slots with which no two passes of a stage collide.
"""

from __future__ import annotations

from collections import deque
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
    """Keeps the order of F and B and runs each weight gradient as late as gaps and memory allow.

    Args:
        table: a valid split-backward table.
        costs: seconds.
        max_live: shape (p,), micro-batches of the whole stage; a forward that would exceed it runs pending W first.
        kept_after_backward: part of an activation that stays from B to W.
        gap: a W goes into an idle gap of at least this part of its duration.
    """
    took, dep = durations(table, costs).tolist(), dependencies(table).tolist()
    kind, chunk, stage = table.kind.tolist(), table.chunk.tolist(), table.stage.tolist()
    ptr = table.stage_ptr.tolist()
    weight_of = {dep[row]: row for row in range(len(table)) if kind[row] == W}
    passes = [[row for row in range(ptr[s], ptr[s + 1]) if kind[row] != W] for s in range(table.p)]
    limit = [float(x) * table.v + 1e-9 for x in max_live]
    at, free, live = [0] * table.p, [0.0] * table.p, [0.0] * table.p
    end = [-1.0] * len(table)
    pending: list[deque[int]] = [deque() for _ in range(table.p)]
    order: list[list[int]] = [[] for _ in range(table.p)]
    waiting: dict[int, int] = {}
    todo = list(range(table.p))
    while todo:
        s = todo.pop()
        while at[s] < len(passes[s]):
            row = passes[s][at[s]]
            d = dep[row]
            if d >= 0 and end[d] < 0.0:
                waiting[d] = s
                break
            ready = 0.0 if d < 0 else end[d] + (costs.comm_s if stage[d] != s else 0.0)
            while pending[s]:
                idle, weight = ready - free[s], pending[s][0]
                worth_it = idle > 0.0 and idle >= gap * took[weight] * (1 - 1e-9)
                full = kind[row] == F and live[s] + 1.0 > limit[s]
                if not (worth_it or full):
                    break
                order[s].append(pending[s].popleft())
                free[s] += took[weight]
                live[s] -= kept_after_backward
            end[row] = free[s] = max(free[s], ready) + took[row]
            order[s].append(row)
            if kind[row] == F:
                live[s] += 1.0
            else:
                live[s] -= 1.0 - kept_after_backward
                pending[s].append(weight_of[row])
            at[s] += 1
            if row in waiting:
                todo.append(waiting.pop(row))
    rows = np.array([[*done, *rest] for done, rest in zip(order, pending, strict=True)], np.int64)
    columns = (table.kind[rows], table.micro_batch[rows], np.asarray(chunk, np.int32)[rows])
    return make_table(table.schedule, table.m, table.v, *columns, table.placement, True)
