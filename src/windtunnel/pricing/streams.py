"""Segments with any number of streams on one device, simulated in one engine call: kernels side by side.

Launches of all streams share the device's SMs and its memory. Collectives hold their SMs from start to end; kernels
that run together give way evenly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.engine import simulate
from windtunnel.program.segment import COMM, Segment
from windtunnel.program.tables import Resources, Streams, TaskTable

HOLDS = 1e6
"""Weight of collectives: their channels are theirs from the launch on."""


def simulate_streams(segments: Sequence[Segment], memory_bytes_per_s: float) -> Floats:
    """(G,) seconds of each segment on an idle device.

    Args:
        segments: priced; names of streams are their own.
        memory_bytes_per_s: what kernels together read and write at most.
    """
    rows = [(i, launch) for i, segment in enumerate(segments) for launch in segment.launches]
    n = len(rows)
    if not n:
        return np.zeros(len(segments))
    offset = np.cumsum([0] + [len(s.launches) for s in segments])
    ids: dict[tuple[int, str], int] = {}
    stream = np.array([ids.setdefault((i, x.stream), len(ids)) for i, x in rows], np.int32)
    alone = np.array([x.alone_s for _, x in rows])
    owner = np.array([i for i, _ in rows], np.int32)
    deps = [[offset[i] + d for d in x.after] for i, x in rows]
    dep_ptr = np.cumsum([0] + [len(d) for d in deps]).astype(np.int64)
    work = np.empty(2 * n)
    work[0::2] = np.array([min(x.sm, 1.0) for _, x in rows]) * alone
    work[1::2] = np.minimum([x.hbm_bytes for _, x in rows], alone * memory_bytes_per_s)
    idx = np.empty(2 * n, np.int32)
    idx[0::2], idx[1::2] = 2 * owner, 2 * owner + 1
    capacity = np.empty(2 * len(segments))
    capacity[0::2], capacity[1::2] = 1.0, memory_bytes_per_s
    none, zero = np.full(n, -1, np.int32), np.zeros(n, np.int32)
    weight = np.array([HOLDS if x.stream == COMM or x.stream.startswith(f"{COMM}:") else 1.0 for _, x in rows])
    tasks = TaskTable(
        alone_s=alone,
        weight=weight,
        rank_class=owner,
        tag=zero,
        stream_ptr=np.arange(n + 1, dtype=np.int64),
        stream_idx=stream,
        dep_ptr=dep_ptr,
        dep_idx=np.array([d for own in deps for d in own], np.int32),
        rate_ptr=np.arange(0, 2 * n + 1, 2, dtype=np.int64),
        rate_idx=idx,
        rate_work=work,
        slot_pool=none,
        slots=zero,
        min_slots=zero,
        waves=zero,
    )
    classes = np.zeros(len(ids), np.int32)
    for (i, _), k in ids.items():
        classes[k] = i
    ends = simulate(tasks, Streams(np.zeros(len(ids), np.int32), classes), Resources(capacity)).end_s
    return np.array([ends[offset[i] : offset[i + 1]].max(initial=0.0) for i in range(len(segments))])
