"""Breadth-first: all micro-batches through one model chunk before the next, then backwards the same way."""

from __future__ import annotations

import numpy as np

from windtunnel.schedules.order import looped_placement, table, weave
from windtunnel.schedules.spec import ScheduleSpec
from windtunnel.schedules.table import B, InstructionTable, ScheduleCosts, ScheduleLimits
from windtunnel.systems import card


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """See the module docstring; every activation of the step is alive at the turn, v·m chunks per stage."""
    n = m * v
    kind, ordinal = weave(n, np.full(p, n))
    position = ordinal // m
    chunk = np.where(kind == B, v - 1 - position, position).astype(np.int32)
    return table(SCHEDULE.id, m, v, kind, ordinal % m, chunk, looped_placement(p, v), False)


SCHEDULE = ScheduleSpec(
    id="breadth_first",
    title="Breadth-first pipeline parallelism",
    source=f"Lamy-Poirier 2023, {card('breadth-first').title}, https://arxiv.org/abs/2211.05953",
    construct=construct,
    check=lambda p, m, v: None,
    split_backward=False,
)
