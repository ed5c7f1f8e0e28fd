"""1F1B: stage s runs p − 1 − s forwards to warm up, then one forward and one backward in turn."""

from __future__ import annotations

import numpy as np

from windtunnel.schedules.order import looped_placement, table, weave
from windtunnel.schedules.spec import ScheduleSpec, needs_one_chunk
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """See the module docstring. Stage s holds at most min(p − s, m) micro-batches."""
    kind, ordinal = weave(m, np.arange(p - 1, -1, -1))
    return table(SCHEDULE.id, m, v, kind, ordinal, None, looped_placement(p, 1), False)


SCHEDULE = ScheduleSpec(
    id="1f1b",
    title="1F1B (PipeDream-Flush)",
    source="Narayanan et al. 2021, Memory-Efficient Pipeline-Parallel DNN Training, https://arxiv.org/abs/2006.09503",
    construct=construct,
    check=needs_one_chunk("1f1b"),
    split_backward=False,
)
