"""A lower bound of the makespan of any program, which no timeline of the engine may beat."""

from __future__ import annotations

import numpy as np

from windtunnel.engine import simulate
from windtunnel.program.tables import Resources, Streams, TaskTable


def bound(tasks: TaskTable, streams: Streams, resources: Resources) -> float:
    """Seconds that no schedule of this program can beat on these resources.

    The larger of the longest path of alone times (dependencies and stream order) and, over the rates, total work over
    capacity.
    """
    n = len(tasks)
    if n == 0:
        return 0.0
    free = Resources(np.zeros(0))
    nothing = np.zeros(0, np.int32)
    unshared = TaskTable(
        alone_s=tasks.alone_s,
        weight=tasks.weight,
        rank_class=tasks.rank_class,
        tag=tasks.tag,
        stream_ptr=tasks.stream_ptr,
        stream_idx=tasks.stream_idx,
        dep_ptr=tasks.dep_ptr,
        dep_idx=tasks.dep_idx,
        rate_ptr=np.zeros(n + 1, np.int64),
        rate_idx=nothing,
        rate_work=np.zeros(0),
        slot_pool=tasks.slot_pool,
        slots=tasks.slots,
        min_slots=tasks.min_slots,
        waves=tasks.waves,
        tags=tasks.tags,
    )
    path_s = simulate(unshared, streams, free).makespan_s
    if not len(tasks.rate_idx):
        return path_s
    work = np.bincount(tasks.rate_idx, weights=tasks.rate_work, minlength=len(resources.capacity))
    used = work > 0.0
    with np.errstate(divide="ignore"):
        rate_s = work[used] / resources.capacity[used]
    return max(path_s, float(rate_s.max(initial=0.0)))
