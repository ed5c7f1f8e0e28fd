"""Plain in-order earliest start of an instruction table, for arranging schedules and for tests.

The times of a simulated step come from the engine, which also knows shared rates and slots; this is what remains of it
when every instruction has a fixed duration and a hop between stages only adds latency.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.schedules.spec import ScheduleError
from windtunnel.schedules.table import B, InstructionTable, ScheduleCosts
from windtunnel.schedules.validate import dependencies, unit_needs


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

    The rows of a unit (`table.joined`) run one after the other, without what overlap inside it would save.

    Source: Qi et al. 2023, https://arxiv.org/abs/2401.10241: bubble rate = (cost − m (T_F + T_B + T_W)) / cost.

    Raises:
        ScheduleError: the table deadlocks.
    """
    took = durations(table, costs)
    if table.joined is not None:
        return _evaluate_units(table, took, costs.comm_s)
    dep = dependencies(table)
    hop = np.where((dep >= 0) & (table.stage[np.maximum(dep, 0)] != table.stage), costs.comm_s, 0.0)
    start, end = [0.0] * len(table), [-1.0] * len(table)
    took_l, dep_l, hop_l = took.tolist(), dep.tolist(), hop.tolist()
    ptr = table.stage_ptr.tolist()
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
        raise _deadlocked(table, at)
    return _summary(table, took, np.asarray(start), np.asarray(end))


def _evaluate_units(table: InstructionTable, took: Floats, comm_s: float) -> tuple[Floats, Floats, float, float]:
    """Times of rows that run in units: a unit waits for all its inputs, and its results leave when it ends."""
    needs, last = unit_needs(table), table.units()[1].tolist()
    stage = table.stage.tolist()
    start, end, left = np.zeros(len(table)), np.full(len(table), -1.0), np.full(len(table), -1.0)
    ptr = table.stage_ptr.tolist()
    at, free = ptr[:-1].copy(), [0.0] * table.p
    waiting: dict[int, list[int]] = {}
    todo, done = list(range(table.p)), 0
    while todo:
        s = todo.pop()
        while (row := at[s]) < ptr[s + 1]:
            missing = next((d for d in needs[row] if left[d] < 0.0), -1)
            if missing >= 0:
                waiting.setdefault(missing, []).append(s)
                break
            inputs = (float(left[d]) + (comm_s if stage[d] != s else 0.0) for d in needs[row])
            unit = slice(row, last[row] + 1)
            end[unit] = max(free[s], *inputs, 0.0) + np.cumsum(took[unit])
            start[unit] = end[unit] - took[unit]
            free[s] = left[unit] = float(end[last[row]])
            done += last[row] + 1 - row
            for own in range(row, last[row] + 1):
                todo.extend(waiting.pop(own, ()))
            at[s] = last[row] + 1
    if done < len(table):
        raise _deadlocked(table, at)
    return _summary(table, took, start, end)


def _deadlocked(table: InstructionTable, at: list[int]) -> ScheduleError:
    stuck = next(s for s in range(table.p) if at[s] < table.stage_ptr[s + 1])
    where = f"stage {stuck} waits at its instruction {at[stuck] - int(table.stage_ptr[stuck])}"
    return ScheduleError(f"schedule {table.schedule}: deadlock, {where}")


def _summary(
    table: InstructionTable, took: Floats, start_s: Floats, end_s: Floats
) -> tuple[Floats, Floats, float, float]:
    spans = end_s[table.stage_ptr[1:] - 1] - start_s[table.stage_ptr[:-1]]
    makespan = float(spans.max())
    busy = np.bincount(table.stage, weights=took, minlength=table.p)
    bubble = 1.0 - float(busy.mean()) / makespan if makespan > 0 else 0.0
    return start_s, end_s, makespan, bubble
