"""Checks that a program is one the engine can run. Problems here are bugs of whoever built it, so all are listed."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Int32s, Ints, Mask
from windtunnel.program.tables import Resources, Streams, TaskTable

_SHOWN = 5


def _rows(bad: Mask) -> str:
    rows = np.flatnonzero(bad)
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return ", ".join(str(row) for row in rows[:_SHOWN]) + more


def _csr(name: str, ptr: Ints, idx: Int32s, n: int, size: int, what: str) -> list[str]:
    """Problems of one ragged column; stops at the first that makes the rest meaningless."""
    if len(ptr) != n + 1 or ptr[0] != 0 or ptr[-1] != len(idx) or np.any(np.diff(ptr) < 0):
        return [f"{name}_ptr: must rise from 0 to {len(idx)} in {n + 1} entries"]
    bad = (idx < 0) | (idx >= size)
    if bad.any():
        return [f"{name}_idx: {what} outside 0 to {size - 1} at entries {_rows(bad)}"]
    return []


def problems(tasks: TaskTable, streams: Streams, resources: Resources) -> list[str]:
    """Everything that is wrong with a program, one line each; empty when it can run."""
    n, found = len(tasks), []
    for name in ("weight", "rank_class", "tag", "slot_pool", "slots", "min_slots", "waves"):
        if len(getattr(tasks, name)) != n:
            found.append(f"{name}: {len(getattr(tasks, name))} rows, expected {n}")
    if len(tasks.rate_work) != len(tasks.rate_idx):
        found.append(f"rate_work: {len(tasks.rate_work)} entries, expected {len(tasks.rate_idx)}")
    found += _csr("stream", tasks.stream_ptr, tasks.stream_idx, n, len(streams.priority), "streams")
    found += _csr("dep", tasks.dep_ptr, tasks.dep_idx, n, n, "tasks")
    found += _csr("rate", tasks.rate_ptr, tasks.rate_idx, n, len(resources.capacity), "rates")
    if found:
        return found  # the checks below index with these columns

    def check(bad: Mask, text: str) -> None:
        if bad.any():
            found.append(f"{text}: rows {_rows(bad)}")

    pools = len(resources.slots)
    check(~(np.isfinite(tasks.alone_s) & (tasks.alone_s >= 0.0)), "alone_s must be finite and not negative")
    check(~(np.isfinite(tasks.weight) & (tasks.weight > 0.0)), "weight must be finite and positive")
    if tasks.tags:
        check((tasks.tag < 0) | (tasks.tag >= len(tasks.tags)), f"tag outside 0 to {len(tasks.tags) - 1}")
    check((tasks.slot_pool < -1) | (tasks.slot_pool >= pools), f"slot_pool outside -1 to {pools - 1}")
    pooled = (tasks.slot_pool >= 0) & (tasks.slot_pool < pools)
    check(pooled & (tasks.slots < 1), "slots must be positive in a pool")
    check(pooled & (tasks.min_slots > tasks.slots), "min_slots must not exceed slots")
    check(pooled & (tasks.waves < 0), "waves must not be negative")
    if pools:
        size = resources.slots[np.clip(tasks.slot_pool, 0, pools - 1)]
        check(pooled & (tasks.min_slots > size), "min_slots exceeds the slots of the pool")
    owner = np.repeat(np.arange(n), np.diff(tasks.rate_ptr))
    loads = tasks.rate_work > 0.0
    bad = np.zeros(n, np.bool_)
    bad[owner[~(np.isfinite(tasks.rate_work) & (tasks.rate_work >= 0.0))]] = True
    check(bad, "rate_work must be finite and not negative")
    bad = np.zeros(n, np.bool_)
    bad[owner[loads & (tasks.alone_s[owner] == 0.0)]] = True
    check(bad, "a task of no time cannot do work on a rate")
    bad = np.zeros(n, np.bool_)
    bad[owner[loads & ~(resources.capacity[tasks.rate_idx] > 0.0)]] = True
    check(bad, "work on a rate without capacity")
    on_cycle = _unreachable(tasks, len(streams.priority))
    check(on_cycle, "dependencies and stream order form a cycle before or through")
    return found


def validate(tasks: TaskTable, streams: Streams, resources: Resources) -> None:
    """Raise if a program cannot run.

    Raises:
        AssertionError: With all problems, one a line.
    """
    found = problems(tasks, streams, resources)
    if found:
        raise AssertionError("\n".join(["invalid program:", *found]))


def _unreachable(tasks: TaskTable, num_streams: int) -> Mask:
    """Rows that never become ready: on a cycle of dependencies and stream order, or after one.

    Takes one round of array work per level only when a dependency points to a later row; row order settles the rest.
    """
    n = len(tasks)
    owner = np.repeat(np.arange(n), np.diff(tasks.dep_ptr))
    dep = tasks.dep_idx.astype(np.int64)
    if np.all(dep < owner):
        return np.zeros(n, np.bool_)
    task = np.repeat(np.arange(n), np.diff(tasks.stream_ptr))
    order = np.lexsort((task, tasks.stream_idx))
    stream, task = tasks.stream_idx[order], task[order]
    follows = (stream[1:] == stream[:-1]) & (task[1:] != task[:-1])
    source = np.concatenate((dep, task[:-1][follows]))
    target = np.concatenate((owner, task[1:][follows]))
    by_source = np.argsort(source, kind="stable")
    target = target[by_source]
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=n), out=ptr[1:])
    pending = np.bincount(target, minlength=n)
    front = np.flatnonzero(pending == 0)
    ready = np.zeros(n, np.bool_)
    while len(front):
        ready[front] = True
        counts = ptr[front + 1] - ptr[front]
        entries = np.repeat(ptr[front] - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(counts.sum())
        reached = target[entries]
        np.subtract.at(pending, reached, 1)
        reached = np.unique(reached)
        front = reached[pending[reached] == 0]
    return ~ready
