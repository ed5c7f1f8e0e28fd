"""Simulate all segments of a step in one engine call and reduce each to seconds, work and a breakdown."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.engine import simulate
from windtunnel.pricing.launch_rows import LaunchRows
from windtunnel.program.segment import ASIDE, COMPUTE, Launch, Segment, SegmentTime
from windtunnel.program.tables import Resources, Streams, Timeline
from windtunnel.specs.cluster import ClusterSpec

COMM_WEIGHT = 1e6
"""Weight of collectives under contention for SMs: they hold their channels from launch and keep their speed, while
kernels give way."""
_STREAMS = 3
"""Streams of a segment: kernels, collectives that the segment waits for, exchanges that other work hides."""


def link_seconds(launches: list[Launch], cluster: ClusterSpec) -> Floats:
    """Seconds of the scale-up and the scale-out link that each launch takes.

    A launch takes all of its time on the link that it loads most, so two exchanges together are never faster than one
    after the other, whatever share of a link's rate each reaches.

    Returns:
        Seconds, shape (n, 2).
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
    """Time of each segment on an otherwise idle device.

    Compute kernels share SMs with running collectives as a rate (fluid limit of yielding at wave boundaries).

    Args:
        segments: Priced segments.
        cluster: Rates of the device and its links.
        coefficients: Cost of a launch on the host.
        host_kernels: Launches that the host issues for each segment (0 under CUDA graphs).
        sync_s: Seconds of device time lost to a host read in each segment.
        drained: Whether the host waits for the device in each segment, so that it cannot launch ahead.
        device_of: Device that each segment runs on, where several run side by side on one; absent: one device each.
            Collectives of such segments share links, each with its own time on the link that it loads most.
    """
    rows = LaunchRows.of(segments)
    timeline = _run(rows, cluster, len(segments), device_of)
    times = []
    for i, segment in enumerate(segments):
        chosen = slice(int(rows.first[i]), int(rows.first[i + 1]))
        start, end = timeline.start_s[chosen], timeline.end_s[chosen]
        device_s, busy, exposed = _partition(segment, start, end, timeline.blame[chosen] - chosen.start)
        host_s = host_kernels[i] * coefficients.host_kernel_s
        total_s = device_s
        if host_s > 0 and device_s > 0:
            waits = drained is not None and drained[i]
            exponent = coefficients.host_drained_power if waits else coefficients.host_power
            total_s = _with_host(segment, end, device_s, host_s, exponent)
            busy["host"] = total_s - device_s
        if sync_s[i]:
            total_s += sync_s[i]
            busy["host"] = busy.get("host", 0.0) + sync_s[i]
        sm = np.array([launch.sm for launch in segment.launches])
        times.append(
            SegmentTime(
                device_s=device_s,
                host_s=host_s,
                total_s=total_s,
                busy_s=dict(busy),
                sm_s=float((sm * rows.alone_s[chosen]).sum()),
                hbm_bytes=sum(x.hbm_bytes for x in segment.launches),
                up_bytes=sum(x.up_bytes for x in segment.launches),
                out_bytes=sum(x.out_bytes for x in segment.launches),
                flop=sum(x.flop for x in segment.launches),
                sync_s=sync_s[i],
                exposed_s=tuple(exposed),
            )
        )
    return times


def _run(rows: LaunchRows, cluster: ClusterSpec, num_segments: int, device_of: list[int] | None) -> Timeline:
    """Run all launches. Each device has two rates, SMs and memory, and two links where segments share devices."""
    memory_rate = cluster.device.memory_bytes_per_s
    communicates = np.array([launch.stream != COMPUTE for launch in rows.launches], np.bool_)
    aside = np.array([launch.stream == ASIDE for launch in rows.launches], np.int32)
    stream = _STREAMS * rows.segment + communicates + aside
    num_rates = 2 if device_of is None else 4
    work = np.zeros((len(rows), num_rates))
    work[:, 0] = np.array([launch.sm for launch in rows.launches]) * rows.alone_s
    work[:, 1] = np.minimum([launch.hbm_bytes for launch in rows.launches], rows.alone_s * memory_rate)
    device: npt.NDArray[np.signedinteger] = rows.segment
    if device_of is not None:
        device = np.asarray(device_of, np.int32)[rows.segment]
        work[:, 2:] = link_seconds(rows.launches, cluster)
    rate_idx = (num_rates * device[:, None] + np.arange(num_rates)).astype(np.int32)
    weight = np.where(communicates, COMM_WEIGHT, 1.0)
    capacity = np.ones((num_segments, num_rates))
    capacity[:, 1] = memory_rate
    segment_of_stream = np.repeat(np.arange(num_segments, dtype=np.int32), _STREAMS)
    streams = Streams(np.zeros(_STREAMS * num_segments, np.int32), segment_of_stream)
    tasks = rows.task_table(stream.astype(np.int32), weight, rate_idx, work)
    return simulate(tasks, streams, Resources(capacity.reshape(-1)))


def _with_host(segment: Segment, end_s: Floats, device_s: float, host_s: float, exponent: float) -> float:
    """Seconds of a segment whose kernels the host launches one by one: a smooth maximum of device and host.

    A hidden exchange bounds the segment by itself: while the device waits for it, the host launches ahead.
    """
    own = [j for j, launch in enumerate(segment.launches) if launch.stream != ASIDE]
    chain_s = float(end_s[own].max()) if own else 0.0
    longest = max(host_s, chain_s)
    smooth: float = longest * ((chain_s / longest) ** exponent + (host_s / longest) ** exponent) ** (1.0 / exponent)
    return max(device_s, smooth)


def _partition(
    segment: Segment, start: Floats, end: Floats, blame: npt.NDArray[np.signedinteger]
) -> tuple[float, dict[str, float], list[float]]:
    """Wall time of one segment by class and by launch: kernels while they run, gaps to the awaited collective."""
    busy: defaultdict[str, float] = defaultdict(float)
    exposed = [0.0] * len(end)
    if not len(end):
        return 0.0, busy, exposed

    def charge(index: int, seconds: float) -> None:
        busy[segment.launches[index].tag] += seconds
        exposed[index] += seconds

    now = 0.0
    for i, launch in enumerate(segment.launches):
        if launch.stream != COMPUTE:
            continue
        gap = float(start[i]) - now
        if gap > 0:
            charge(int(blame[i]) if 0 <= blame[i] < len(segment.launches) else i, gap)
        charge(i, float(end[i]) - max(float(start[i]), now))
        now = max(now, float(end[i]))
    total = float(end.max())
    if total > now:
        charge(int(np.argmax(end)), total - now)
    return total, busy, exposed
