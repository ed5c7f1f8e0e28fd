"""Simulate segments whose launches run on any number of streams of one device, in one engine call.

Launches of all streams share the device's SMs and its memory. Collectives hold their SMs from start to end; kernels
that run together give way evenly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windtunnel.arrays import Floats, Int32s
from windtunnel.engine import simulate
from windtunnel.pricing.launch_rows import LaunchRows
from windtunnel.pricing.segments import COMM_WEIGHT
from windtunnel.program.segment import COMM, Segment
from windtunnel.program.tables import Resources, Streams


def simulate_streams(segments: Sequence[Segment], memory_bytes_per_s: float) -> Floats:
    """Seconds of each segment on an idle device.

    Args:
        segments: Priced segments; each names its own streams.
        memory_bytes_per_s: Bytes that all kernels together read and write per second at most.

    Returns:
        Seconds, shape (g,).
    """
    rows = LaunchRows.of(segments)
    if not len(rows):
        return np.zeros(len(segments))
    stream, segment_of_stream = _number_streams(rows)
    work = np.empty((len(rows), 2))
    work[:, 0] = np.array([min(launch.sm, 1.0) for launch in rows.launches]) * rows.alone_s
    work[:, 1] = np.minimum([launch.hbm_bytes for launch in rows.launches], rows.alone_s * memory_bytes_per_s)
    rate_idx = (2 * rows.segment[:, None] + np.arange(2)).astype(np.int32)
    capacity = np.empty(2 * len(segments))
    capacity[0::2], capacity[1::2] = 1.0, memory_bytes_per_s
    weight = np.array([COMM_WEIGHT if _communicates(launch.stream) else 1.0 for launch in rows.launches])
    streams = Streams(np.zeros(len(segment_of_stream), np.int32), segment_of_stream)
    ends = simulate(rows.task_table(stream, weight, rate_idx, work), streams, Resources(capacity)).end_s
    return np.array([ends[a:b].max(initial=0.0) for a, b in zip(rows.first[:-1], rows.first[1:], strict=True)])


def _communicates(stream: str) -> bool:
    """Whether collectives run on a stream of this name."""
    return stream == COMM or stream.startswith(f"{COMM}:")


def _number_streams(rows: LaunchRows) -> tuple[Int32s, Int32s]:
    """Stream of each launch, shape (n,), and the segment of each stream, shape (s,)."""
    numbers: dict[tuple[int, str], int] = {}
    keys = [(segment, launch.stream) for segment, launch in zip(rows.segment.tolist(), rows.launches, strict=True)]
    stream = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int32)
    return stream, np.array([segment for segment, _ in numbers], np.int32)
