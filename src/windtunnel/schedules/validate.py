"""Checks of instruction tables: completeness, order, placement, deadlock, and the activations that are alive."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Rows
from windtunnel.schedules.table import B, F, InstructionTable, W


def _part_of(table: InstructionTable) -> Rows:
    """Depth position of each (stage, chunk), shape (p, v)."""
    part = np.full((table.p, table.v), -1, np.int64)
    part[table.placement[:, 0], table.placement[:, 1]] = np.arange(len(table.placement))
    return part


def _row_of(table: InstructionTable) -> Rows:
    """Row of each (kind, part, micro-batch), shape (3, p·v, m); −1 where there is none."""
    part = _part_of(table)[table.stage, table.chunk]
    row = np.full((3, table.p * table.v, table.m), -1, np.int64)
    row[table.kind, part, table.micro_batch] = np.arange(len(table))
    return row


def dependencies(table: InstructionTable) -> Rows:
    """The row whose result each row waits for besides its predecessor on the stage, shape (n,); −1 for none.

    F of part k waits for F of part k − 1, B of part k for B of part k + 1, B of the last part for its own F, W for its
    own B; all inside one copy of the model. That B of an earlier part also comes after its own F follows from the order
    on the stage, which `validate` checks. Rows of one unit (`table.joined`) wait for what any of them waits for.
    """
    row = _row_of(table)
    part = _part_of(table)[table.stage, table.chunk]
    kind, mb = table.kind, table.micro_batch
    before, after = (near[part, mb] for near in table.neighbours())
    forward = np.where(before >= 0, row[F, np.maximum(before, 0), mb], -1)
    backward = np.where(after >= 0, row[B, np.maximum(after, 0), mb], row[F, part, mb])
    return np.where(kind == F, forward, np.where(kind == B, backward, row[B, part, mb]))


def live_activations(table: InstructionTable, kept_after_backward: float = 1.0) -> Floats:
    """Most activations each stage holds at once, in micro-batches of the whole stage (a chunk counts 1/v). Shape (p,).

    An activation is alive from the start of its F to the end of its B or, when the backward is split, of its W.

    Args:
        table: the schedule.
        kept_after_backward: fraction of an activation that stays from the end of B to the end of W.
    """
    at_f = np.ones(len(table))
    change = np.where(table.kind == F, at_f, 0.0)
    if table.split_backward:
        change = np.where(table.kind == B, kept_after_backward - 1.0, change)
        change = np.where(table.kind == W, -kept_after_backward, change)
    else:
        change = np.where(table.kind == B, -1.0, change)
    level = np.cumsum(change)
    before = np.concatenate([[0.0], level])[table.stage_ptr[:-1]]
    peak = np.maximum.reduceat(level, table.stage_ptr[:-1]) - before
    return np.asarray(np.round(peak / table.v, 12), np.float64)


def _shape_problems(table: InstructionTable) -> list[str]:
    problems = []
    p, m, v, n = table.p, table.m, table.v, len(table)
    kinds = 3 if table.split_backward else 2
    if any(len(column) != n for column in (table.kind, table.micro_batch, table.chunk)):
        return ["columns have different lengths"]
    if len(table.stage_ptr) != p + 1 or table.stage_ptr[0] != 0 or table.stage_ptr[-1] != n:
        problems.append(f"stage_ptr does not cover {n} rows of {p} stages")
    elif not np.array_equal(table.stage, np.repeat(np.arange(p), np.diff(table.stage_ptr))):
        problems.append("rows are not sorted by stage")
    cells = {tuple(x) for x in table.placement.tolist()}
    if table.placement.shape != (p * v, 2) or cells != {(s, c) for s in range(p) for c in range(v)}:
        problems.append(f"placement is not a permutation of {p} stages × {v} chunks")
    if p * v % table.copies or (table.copies > 1 and (table.copy_of is None or len(table.copy_of) != m)):
        problems.append(f"{table.copies} copies of the model need a copy for each micro-batch and equal parts")
    elif table.copy_of is not None and m and not 0 <= table.copy_of.min() <= table.copy_of.max() < table.copies:
        problems.append(f"copy_of outside 0 … {table.copies - 1}")
    if table.runs is not None and (table.copies > 1 or table.runs.shape != (m, table.depth)):
        problems.append(f"runs is not {m} micro-batches × {table.depth} parts of one model")
    elif table.runs is not None and not (table.runs[:, 0].all() and table.runs[:, -1].all()):
        problems.append("a micro-batch skips the first or the last part")
    if table.joined is not None and len(table.joined) != n:
        problems.append("columns have different lengths")
    elif table.joined is not None and n and table.joined[table.stage_ptr[1:] - 1].any():
        problems.append("a unit reaches over the end of a stage")
    for name, column, top in (
        ("kind", table.kind, kinds),
        ("micro_batch", table.micro_batch, m),
        ("chunk", table.chunk, v),
    ):
        if n and (column.min() < 0 or column.max() >= top):
            problems.append(f"{name} outside 0 … {top - 1}")
    return problems


def validate(table: InstructionTable) -> list[str]:
    """All that is wrong with a table, in words; empty when it can run.

    Every F, B (and W) once per micro-batch and chunk; placement a permutation; B after its F and W after its B on the
    stage; and no deadlock when every stage runs its list in order.
    """
    problems = _shape_problems(table)
    if problems:
        return problems
    kinds = 3 if table.split_backward else 2
    key = ((table.stage.astype(np.int64) * table.v + table.chunk) * kinds + table.kind) * table.m + table.micro_batch
    count = np.bincount(key, minlength=table.p * table.v * kinds * table.m)
    wanted = np.ones((table.p, table.v, kinds, table.m), np.int64)
    if table.copy_of is not None:
        copy = _part_of(table) // table.depth
        wanted *= (copy[:, :, None, None] == table.copy_of).astype(np.int64)
    if table.runs is not None:
        wanted *= table.runs.T[_part_of(table)][:, :, None, :]
    for wrong in np.flatnonzero(count != wanted.reshape(-1))[:5].tolist():
        cell, mb = divmod(wrong, table.m)
        cell, kind = divmod(cell, kinds)
        stage, chunk = divmod(cell, table.v)
        problems.append(f"stage {stage} runs {'FBW'[kind]} of micro-batch {mb}, chunk {chunk} {count[wrong]} times")
    if problems:
        return problems
    row = _row_of(table)
    runs = row[F] >= 0
    pairs = [("B", "F", (row[F] >= row[B]) & runs)]
    if table.split_backward:
        pairs.append(("W", "B", (row[B] >= row[W]) & runs))
    for later, earlier, wrong_cells in pairs:
        for part, mb in np.argwhere(wrong_cells)[:5].tolist():
            problems.append(f"{later} of micro-batch {mb}, part {part} comes before its {earlier}")
    return problems or _deadlock(table)


def unit_needs(table: InstructionTable) -> list[list[int]]:
    """Rows of other units that the unit beginning at each row waits for; empty for rows inside a unit."""
    first = table.units()[0]
    dep = dependencies(table)
    out: list[list[int]] = [[] for _ in range(len(table))]
    outside = (dep >= 0) & (first[np.maximum(dep, 0)] != first)
    for row in np.flatnonzero(outside).tolist():
        out[int(first[row])].append(int(dep[row]))
    return out


def _deadlock(table: InstructionTable) -> list[str]:
    needs = unit_needs(table)
    last = table.units()[1].tolist()
    ptr = table.stage_ptr.tolist()
    at = ptr[:-1].copy()
    done = bytearray(len(table))
    waiting: dict[int, list[int]] = {}
    todo = list(range(table.p))
    while todo:
        s = todo.pop()
        row = at[s]
        while row < ptr[s + 1]:
            missing = next((d for d in needs[row] if not done[d]), -1)
            if missing >= 0:
                waiting.setdefault(missing, []).append(s)
                break
            for own in range(row, last[row] + 1):
                done[own] = 1
                todo.extend(waiting.pop(own, ()))
            row = last[row] + 1
        at[s] = row
    stuck = [s for s in range(table.p) if at[s] < ptr[s + 1]]
    return [
        f"deadlock: stage {s} waits at its instruction {at[s] - ptr[s]} "
        f"({'FBW'[table.kind[at[s]]]} of micro-batch {table.micro_batch[at[s]]}, chunk {table.chunk[at[s]]})"
        for s in stuck
    ]
