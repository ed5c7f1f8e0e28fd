"""Launches of many segments as rows of one task table, as the engine runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints
from windtunnel.program.segment import Launch, Segment
from windtunnel.program.tables import TaskTable


@dataclass(frozen=True, slots=True)
class LaunchRows:
    """Launches of all segments, segment after segment. n launches, g segments."""

    launches: list[Launch]
    segment: Int32s
    """Segment of each launch, shape (n,)."""
    first: Ints
    """Row of the first launch of each segment, and n, shape (g + 1,)."""
    alone_s: Floats
    """Seconds of each launch alone, shape (n,)."""

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> LaunchRows:
        """The rows of priced segments."""
        launches = [launch for segment in segments for launch in segment.launches]
        counts = [len(segment.launches) for segment in segments]
        return cls(
            launches=launches,
            segment=np.repeat(np.arange(len(segments)), counts).astype(np.int32),
            first=np.cumsum([0, *counts]),
            alone_s=np.array([launch.alone_s for launch in launches], np.float64),
        )

    def __len__(self) -> int:
        return len(self.launches)

    def task_table(self, stream: Int32s, weight: Floats, rate_idx: Int32s, rate_work: Floats) -> TaskTable:
        """The launches as tasks.

        Args:
            stream: Stream of each launch, shape (n,).
            weight: Share of each launch under contention, shape (n,).
            rate_idx: Rates that each launch loads, shape (n, r).
            rate_work: Work of each launch on these rates, shape (n, r).
        """
        n, rates = rate_work.shape
        dependencies = [
            [self.first[segment] + index for index in launch.after]
            for segment, launch in zip(self.segment.tolist(), self.launches, strict=True)
        ]
        no_pool, zero = np.full(n, -1, np.int32), np.zeros(n, np.int32)
        return TaskTable(
            alone_s=self.alone_s,
            weight=weight,
            rank_class=self.segment,
            tag=zero,
            stream_ptr=np.arange(n + 1, dtype=np.int64),
            stream_idx=stream,
            dep_ptr=np.cumsum([0] + [len(row) for row in dependencies]).astype(np.int64),
            dep_idx=np.array([index for row in dependencies for index in row], np.int32),
            rate_ptr=np.arange(0, rates * n + 1, rates, dtype=np.int64),
            rate_idx=rate_idx.reshape(-1),
            rate_work=rate_work.reshape(-1),
            slot_pool=no_pool,
            slots=zero,
            min_slots=zero,
            waves=zero,
        )
