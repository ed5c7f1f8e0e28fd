"""ZB-V: two chunks per stage in a V, so that every stage holds the same activations, those of 1F1B's first stage."""

from __future__ import annotations

import numpy as np

from windtunnel.schedules.arrange import arrange
from windtunnel.schedules.order import v_placement
from windtunnel.schedules.spec import ScheduleSpec, needs_two_chunks
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """Arranged by time with at most p micro-batches per stage, unless `limits` say otherwise."""
    given = limits if limits is not None else ScheduleLimits()
    max_live = given.max_live if given.max_live is not None else np.full(p, float(p))
    return arrange(SCHEDULE.id, p, m, v_placement(p), costs, max_live, given.kept_after_backward)


SCHEDULE = ScheduleSpec(
    id="zb_v",
    title="ZB-V",
    source="Qi et al. 2023, Zero Bubble Pipeline Parallelism, https://arxiv.org/abs/2401.10241, section 6",
    construct=construct,
    check=needs_two_chunks("zb_v"),
    split_backward=True,
    uses_costs=True,
)
