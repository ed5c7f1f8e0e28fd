"""ZB-H1: 1F1B with the weight gradients split off and delayed, at the memory of 1F1B."""

from __future__ import annotations

import numpy as np

from windtunnel.schedules.order import looped_placement, table, weave
from windtunnel.schedules.spec import ScheduleSpec, needs_one_chunk
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits
from windtunnel.systems import card


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """Stage s warms up with p − 1 − s forwards and runs W of micro-batch i − s right after B of micro-batch i."""
    s = np.arange(p)
    kind, ordinal = weave(m, p - 1 - s, delay=s)
    return table(SCHEDULE.id, m, v, kind, ordinal, None, looped_placement(p, 1), True)


SCHEDULE = ScheduleSpec(
    id="zb_h1",
    title="ZB-H1",
    source=f"Qi et al. 2023, {card('zero-bubble').title}, https://arxiv.org/abs/2401.10241, section 2.1",
    construct=construct,
    check=needs_one_chunk("zb_h1"),
    split_backward=True,
)
