"""Plain in-order earliest start of an instruction table, for arranging schedules and for tests.

The times of a simulated step come from the engine, which also knows shared rates and slots; this is what remains of it
when every instruction has a fixed duration and a hop between stages only adds latency.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.schedules.spec import ScheduleError
from windtunnel.schedules.table import B, InstructionTable, ScheduleCosts
from windtunnel.schedules.validate import dependencies

Floats = npt.NDArray[np.float64]


def durations(table: InstructionTable, costs: ScheduleCosts) -> Floats:
    """Seconds of each instruction, shape (n,). A backward that is not split takes `backward_s + weight_s`."""
    per_kind = np.stack([costs.forward_s, costs.backward_s, costs.weight_s]).astype(np.float64)
    if not table.split_backward:
        per_kind[B] = costs.backward_s + costs.weight_s
    return np.asarray(per_kind[table.kind, table.stage, table.chunk], np.float64)


def evaluate(table: InstructionTable, costs: ScheduleCosts) -> tuple[Floats, Floats, float, float]:
    """Start and end of each instruction when every stage runs its list in order, as early as its inputs arrive.

    A hop between two stages adds `costs.comm_s` and occupies neither; parts on one stage hand over at once.

    Returns:
        start_s and end_s, shape (n,); the cost, max over stages of (last end − first start); and the bubble rate,
        1 − (mean busy seconds of a stage) / cost.

    Source: Qi et al. 2023, https://arxiv.org/abs/2401.10241: bubble rate = (cost − m (T_F + T_B + T_W)) / cost.

    Raises:
        ScheduleError: the table deadlocks.
    """
    took = durations(table, costs)
    dep = dependencies(table)
    hop = np.where((dep >= 0) & (table.stage[np.maximum(dep, 0)] != table.stage), costs.comm_s, 0.0)
    start, end = [0.0] * len(table), [-1.0] * len(table)
    took_l, dep_l, hop_l = took.tolist(), dep.tolist(), hop.tolist()
    ptr = table.stage_ptr.tolist()
    stage_of: list[int] = table.stage.tolist()
    at, free = ptr[:-1].copy(), [0.0] * table.p
    waiting: dict[int, int] = {}  # row not yet run → stage whose head waits for it
    todo = list(range(table.p))
    done = 0
    while todo:
        s = todo.pop()
        row, stop, now = at[s], ptr[s + 1], free[s]
        while row < stop:
            d = dep_l[row]
            begin = now
            if d >= 0:
                if end[d] < 0.0:
                    waiting[d] = s
                    break
                begin = max(now, end[d] + hop_l[row])
            start[row] = begin
            now = end[row] = begin + took_l[row]
            done += 1
            if row in waiting:
                todo.append(waiting.pop(row))
            row += 1
        at[s], free[s] = row, now
    if done < len(table):
        stuck = next(s for s in range(table.p) if at[s] < ptr[s + 1])
        where = f"stage {stuck} waits at its instruction {at[stuck] - ptr[stuck]}"
        raise ScheduleError(f"schedule {table.schedule}: deadlock, {where}")
    start_s, end_s = np.asarray(start), np.asarray(end)
    spans = end_s[table.stage_ptr[1:] - 1] - start_s[table.stage_ptr[:-1]]
    makespan = float(spans.max())
    busy = np.bincount(stage_of, weights=took, minlength=table.p)
    bubble = 1.0 - float(busy.mean()) / makespan if makespan > 0 else 0.0
    return start_s, end_s, makespan, bubble
