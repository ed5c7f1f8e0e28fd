"""ZB-V: two chunks per stage in a V, so that every stage holds the same activations, those of 1F1B's first stage."""

from __future__ import annotations

import numpy as np

from windtunnel.schedules.arrange import arrange, unit_costs
from windtunnel.schedules.building_block import best_block, v_block
from windtunnel.schedules.order import v_placement
from windtunnel.schedules.spec import ScheduleSpec, needs_two_chunks
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits
from windtunnel.systems import card


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """Arranged by time with at most p micro-batches per stage, unless `limits` say otherwise.

    The shortest of a repeated building block with its weight gradients in the gaps and a few list schedules. With equal
    passes and free hops the bubble vanishes or stays small; with hops of a tenth of a pass and m = 3p a bubble of 7 to
    8 % is left on the paper's profiles.
    """
    given = limits if limits is not None else ScheduleLimits()
    max_live = given.max_live if given.max_live is not None else np.full(p, float(p))
    kept, known = given.kept_after_backward, costs if costs is not None else unit_costs(p, 2)
    block = best_block(v_block(SCHEDULE.id, p, m), known, max_live, kept)
    return arrange(SCHEDULE.id, p, m, v_placement(p), costs, max_live, kept, (block,))


SCHEDULE = ScheduleSpec(
    id="zb_v",
    title="ZB-V",
    source=f"Qi et al. 2023, {card('zero-bubble').title}, https://arxiv.org/abs/2401.10241, section 6",
    construct=construct,
    check=needs_two_chunks("zb_v"),
    split_backward=True,
    uses_costs=True,
)
