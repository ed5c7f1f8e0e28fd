"""ZB-1p: the automatic zero-bubble schedule with the activation memory of 1F1B."""

from __future__ import annotations

import numpy as np

from windtunnel.schedules import zb_h1, zb_h2
from windtunnel.schedules.arrange import arrange
from windtunnel.schedules.order import looped_placement
from windtunnel.schedules.spec import ScheduleSpec, needs_one_chunk
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits
from windtunnel.systems import card


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """Arranged by time with at most p micro-batches per stage, unless `limits` say otherwise."""
    given = limits if limits is not None else ScheduleLimits()
    max_live = given.max_live if given.max_live is not None else np.full(p, 1.0 * p)
    by_hand = tuple(build(p, m, v, None, None) for build in (zb_h1.construct, zb_h2.construct))
    return arrange(SCHEDULE.id, p, m, looped_placement(p, 1), costs, max_live, given.kept_after_backward, by_hand)


SCHEDULE = ScheduleSpec(
    id="zb_1p",
    title="ZB-1p",
    source=f"Qi et al. 2023, {card('zero-bubble').title}, https://arxiv.org/abs/2401.10241, section 3",
    construct=construct,
    check=needs_one_chunk("zb_1p"),
    split_backward=True,
    uses_costs=True,
)
