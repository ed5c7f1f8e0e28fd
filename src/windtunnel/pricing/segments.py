"""Simulate all segments of a step in one engine call and reduce each to seconds, work and a breakdown."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.engine import simulate
from windtunnel.program.segment import ASIDE, COMPUTE, Launch, Segment, SegmentTime
from windtunnel.program.tables import Resources, Streams, TaskTable
from windtunnel.specs.cluster import ClusterSpec

COMM_WEIGHT = 1e6
"""Collectives hold their channels from launch: under contention for SMs they keep their speed, kernels give way."""


def link_seconds(launches: list[Launch], cluster: ClusterSpec) -> Floats:
    """(n, 2): seconds of the scale-up and the scale-out link that each launch takes; of the one it loads most, all.

    So two exchanges together are never faster than one after the other, whatever share of its rate each reaches.
    """
    moved = np.array([(x.up_bytes, x.out_bytes) for x in launches], np.float64).reshape(-1, 2)
    busy = moved / np.array([cluster.scale_up.bytes_per_s, cluster.nic_bytes_per_s_per_device])
    most = busy.max(axis=1, initial=0.0)
    alone = np.array([x.alone_s for x in launches])
    return np.asarray(np.where(most[:, None] > 0, busy / np.maximum(most, 1e-300)[:, None] * alone[:, None], 0.0))


def simulate_segments(
    segments: list[Segment],
    cluster: ClusterSpec,
    coefficients: Coefficients,
    host_kernels: list[float],
    sync_s: list[float],
    drained: list[bool] | None = None,
    device_of: list[int] | None = None,
) -> list[SegmentTime]:
    """Seconds of each segment on an otherwise idle device.

    Args:
        segments: priced segments.
        cluster: rates of the device and its links.
        coefficients: host cost.
        host_kernels: launches the host issues for each segment (0 under CUDA graphs).
        sync_s: device time lost to a host read in each segment.
        drained: whether the host waits for the device in each segment, so that it cannot launch ahead.
        device_of: the device that each segment runs on, where some run side by side on one; absent: one each.
            Collectives of such segments share links, each with its own time on the link that it loads most.

    Compute kernels share SMs with running collectives as a rate (fluid limit of yielding at wave boundaries).
    """
    rows = [(i, launch) for i, segment in enumerate(segments) for launch in segment.launches]
    n = len(rows)
    offset = np.cumsum([0] + [len(s.launches) for s in segments])
    alone = np.array([launch.alone_s for _, launch in rows])
    comm = np.array([launch.stream != COMPUTE for _, launch in rows], np.bool_)
    owner = np.array([i for i, _ in rows], np.int32)
    stream = 3 * owner + comm + np.array([launch.stream == ASIDE for _, launch in rows], np.int32)
    sm = np.array([launch.sm for _, launch in rows])
    deps = [[offset[i] + d for d in launch.after] for i, launch in rows]
    dep_ptr = np.cumsum([0] + [len(d) for d in deps]).astype(np.int64)
    dep_idx = np.array([x for d in deps for x in d], np.int32)
    k = len(segments)
    # two rates a segment, SMs and device memory (2i, 2i + 1); where segments share a device, its two links besides
    rates = 2 if device_of is None else 4
    work = np.zeros((n, rates))
    work[:, 0] = sm * alone
    work[:, 1] = np.minimum([launch.hbm_bytes for _, launch in rows], alone * cluster.device.memory_bytes_per_s)
    on = owner if device_of is None else np.asarray(device_of, np.int32)[owner]
    if device_of is not None:
        work[:, 2:] = link_seconds([launch for _, launch in rows], cluster)
    idx = (rates * on[:, None] + np.arange(rates)).astype(np.int32)
    capacity = np.ones((k, rates))
    capacity[:, 1] = cluster.device.memory_bytes_per_s
    none = np.full(n, -1, np.int32)
    zero = np.zeros(n, np.int32)
    tasks = TaskTable(
        alone_s=alone,
        weight=np.where(comm, COMM_WEIGHT, 1.0),
        rank_class=owner,
        tag=zero,
        stream_ptr=np.arange(n + 1, dtype=np.int64),
        stream_idx=stream.astype(np.int32),
        dep_ptr=dep_ptr,
        dep_idx=dep_idx,
        rate_ptr=np.arange(0, rates * n + 1, rates, dtype=np.int64),
        rate_idx=idx.reshape(-1),
        rate_work=work.reshape(-1),
        slot_pool=none,
        slots=zero,
        min_slots=zero,
        waves=zero,
    )
    streams = Streams(np.zeros(3 * k, np.int32), np.repeat(np.arange(k, dtype=np.int32), 3))
    timeline = simulate(tasks, streams, Resources(capacity.reshape(-1)))
    out = []
    for i, segment in enumerate(segments):
        a, b = int(offset[i]), int(offset[i + 1])
        device_s, busy, exposed = _partition(
            segment, timeline.start_s[a:b], timeline.end_s[a:b], timeline.blame[a:b] - a
        )
        host_s = host_kernels[i] * coefficients.host_kernel_s
        total = device_s
        if host_s > 0 and device_s > 0:
            q = coefficients.host_drained_power if drained is not None and drained[i] else coefficients.host_power
            # a hidden exchange bounds the step by itself: while the device waits for it, the host launches ahead
            own = [j for j, x in enumerate(segment.launches) if x.stream != ASIDE]
            chain = float(timeline.end_s[a:b][own].max()) if own else 0.0
            big = max(host_s, chain)
            total = max(device_s, big * ((chain / big) ** q + (host_s / big) ** q) ** (1.0 / q))
            busy["host"] = total - device_s
        if sync_s[i]:
            total += sync_s[i]
            busy["host"] = busy.get("host", 0.0) + sync_s[i]
        launches = segment.launches
        out.append(
            SegmentTime(
                device_s=device_s,
                host_s=host_s,
                total_s=total,
                busy_s=dict(busy),
                sm_s=float((sm[a:b] * alone[a:b]).sum()),
                hbm_bytes=sum(x.hbm_bytes for x in launches),
                up_bytes=sum(x.up_bytes for x in launches),
                out_bytes=sum(x.out_bytes for x in launches),
                flop=sum(x.flop for x in launches),
                sync_s=sync_s[i],
                exposed_s=tuple(exposed),
            )
        )
    return out


def _partition(
    segment: Segment, start: Floats, end: Floats, blame: npt.NDArray[np.signedinteger]
) -> tuple[float, dict[str, float], list[float]]:
    """Wall time of one segment by class and by launch: kernels while they run, gaps to the collective waited for."""
    busy: defaultdict[str, float] = defaultdict(float)
    exposed = [0.0] * len(end)
    if not len(end):
        return 0.0, busy, exposed

    def charge(index: int, seconds: float) -> None:
        busy[segment.launches[index].tag] += seconds
        exposed[index] += seconds

    at = 0.0
    for i, launch in enumerate(segment.launches):
        if launch.stream != COMPUTE:
            continue
        gap = float(start[i]) - at
        if gap > 0:
            charge(int(blame[i]) if 0 <= blame[i] < len(segment.launches) else i, gap)
        charge(i, float(end[i]) - max(float(start[i]), at))
        at = max(at, float(end[i]))
    total = float(end.max())
    if total > at:
        charge(int(np.argmax(end)), total - at)
    return total, busy, exposed
