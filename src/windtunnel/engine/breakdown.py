"""Where the wall time of one rank class went: what its compute streams did, and what they waited for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from windtunnel.program.tables import TaskTable, Timeline

BUBBLE = "bubble"
IDLE = "idle"
EXPOSED = "exposed:"


def _busiest_streams(tasks: TaskTable, timeline: Timeline) -> npt.NDArray[np.int64]:
    """For each rank class the stream that its tasks keep busy longest."""
    if not len(tasks.stream_idx):
        return np.zeros(0, np.int64)
    entry_task = np.repeat(np.arange(len(tasks)), np.diff(tasks.stream_ptr))
    busy = np.bincount(tasks.stream_idx, weights=(timeline.end_s - timeline.start_s)[entry_task])
    owner = np.zeros(len(busy), np.int64)
    owner[tasks.stream_idx[::-1]] = tasks.rank_class[entry_task[::-1]]
    used = np.unique(tasks.stream_idx)
    order = used[np.lexsort((used, -busy[used], owner[used]))]
    first = np.append(True, owner[order][1:] != owner[order][:-1])
    chosen: npt.NDArray[np.int64] = order[first]
    return chosen


def breakdown(
    tasks: TaskTable,
    timeline: Timeline,
    rank_class: int | None = None,
    *,
    compute_streams: Sequence[int] | None = None,
) -> dict[str, float]:
    """Partition [0, makespan] of one rank class by class of time.

    While a compute stream of the class is busy, time goes to the tag of the running task (the one that started
    first, if several run). An idle gap is blamed backwards along the chain of tasks that released the next compute
    task: the part covered by a task of tag x is `exposed:x`; from where the chain enters compute of another rank
    class, the rest of the gap is `bubble`. Time that nothing explains is `idle`.

    Args:
        tasks: The program.
        timeline: Its simulation.
        rank_class: Whose time; the class whose compute ends last by default.
        compute_streams: Streams, of all classes, that count as compute; by default the busiest of each class.

    Returns:
        Seconds by class of time; they sum to the makespan.
    """
    streams = _busiest_streams(tasks, timeline) if compute_streams is None else np.asarray(compute_streams, np.int64)
    entry_task = np.repeat(np.arange(len(tasks)), np.diff(tasks.stream_ptr))
    computes = np.zeros(len(tasks), np.bool_)
    computes[entry_task[np.isin(tasks.stream_idx, streams)]] = True
    start, end, makespan = timeline.start_s, timeline.end_s, timeline.makespan_s
    rows = np.flatnonzero(computes)
    if rank_class is None:
        if not len(rows):
            return {IDLE: makespan} if makespan > 0.0 else {}
        rank_class = int(tasks.rank_class[rows[np.argmax(end[rows])]])
    rows = rows[tasks.rank_class[rows] == rank_class]
    rows = rows[np.lexsort((rows, start[rows]))]
    reached = np.maximum.accumulate(end[rows]) if len(rows) else np.zeros(0)
    before = np.append(0.0, reached[:-1])[: len(rows)]
    seconds: dict[str, float] = {}

    def name(row: int) -> str:
        tag = int(tasks.tag[row])
        return tasks.tags[tag] if tag < len(tasks.tags) else f"tag {tag}"

    def add(kind: str, amount: float) -> None:
        seconds[kind] = seconds.get(kind, 0.0) + amount

    busy = np.maximum(end[rows] - np.maximum(start[rows], before), 0.0)
    for tag in np.unique(tasks.tag[rows]):
        mine = tasks.tag[rows] == tag
        add(name(int(rows[np.argmax(mine)])), float(busy[mine].sum()))

    def blame_gap(begin: float, stop: float, row: int) -> None:
        """Give [begin, stop] to the chain of tasks that ends with `row`."""
        at, foreign = stop, False
        while at > begin and row >= 0:
            since = min(max(float(start[row]), begin), at)
            foreign = foreign or (bool(computes[row]) and int(tasks.rank_class[row]) != rank_class)
            if at > since:
                add(BUBBLE if foreign else EXPOSED + name(row), at - since)
            at = since
            row = int(timeline.blame[row])
        if at > begin:
            add(BUBBLE if foreign else IDLE, at - begin)

    for g in np.flatnonzero(start[rows] > before):
        blame_gap(float(before[g]), float(start[rows[g]]), int(timeline.blame[rows[g]]))
    covered = float(reached[-1]) if len(rows) else 0.0
    if makespan > covered:
        blame_gap(covered, makespan, int(np.argmax(end)))
    return {kind: amount for kind, amount in seconds.items() if amount > 0.0}
