"""V-shaped orders made by repeating one micro-batch's pattern, and weight gradients put into the gaps of any order.

Source: Qi et al. 2024, Pipeline Parallelism with Controllable Memory, https://arxiv.org/abs/2405.15362: repeat a building
block at a fixed interval; the lifespan of activations in the block sets the memory. The offsets here are our own: every
hop takes three slots of the six that a micro-batch fills on each stage, so no two passes of a stage collide (the down
forward and the last backward sit three slots apart, the others on slots 1 and 2 modulo 3), activations live 12 (p − 1)
slots in all, which is the memory of p micro-batches, and each hop has two slots of slack.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from windtunnel.schedules.evaluate import durations
from windtunnel.schedules.order import table as make_table
from windtunnel.schedules.order import v_placement
from windtunnel.schedules.table import B, F, InstructionTable, ScheduleCosts, W
from windtunnel.schedules.validate import dependencies

_INTERVAL, _HOP = 6, 3


def v_block(schedule: str, p: int, m: int) -> InstructionTable:
    """The repeated block: passes of a stage sorted by their slot, each weight gradient right after its backward."""
    s, i = np.arange(p)[:, None], _INTERVAL * np.arange(m)[None, :]
    leg = _HOP * (p - 1)
    down, up = i + _HOP * s, i + leg + 1 + _HOP * (p - 1 - s)
    back_down, back_up = i + 2 * leg + 2 + _HOP * s, i + 3 * leg + 3 + _HOP * (p - 1 - s)
    slot = np.concatenate([down, up, back_down, back_up, back_down + 0.5, back_up + 0.5], axis=1)
    at = np.argsort(slot, axis=1, kind="stable")
    kind = np.repeat(np.array([F, F, B, B, W, W], np.int8), m)
    chunk = np.repeat(np.array([0, 1, 1, 0, 1, 0], np.int32), m)
    micro_batch = np.tile(np.arange(m, dtype=np.int32), 6)
    return make_table(schedule, m, 2, kind[at], micro_batch[at], chunk[at], v_placement(p), True)


def place_weights(
    table: InstructionTable,
    costs: ScheduleCosts,
    max_live: npt.NDArray[np.float64],
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
