"""GPipe: every forward of the step, then every backward, newest micro-batch first."""

from __future__ import annotations

import numpy as np

from windtunnel.schedules.order import looped_placement, table, weave
from windtunnel.schedules.spec import ScheduleSpec, needs_one_chunk
from windtunnel.schedules.table import B, InstructionTable, ScheduleCosts, ScheduleLimits


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """See the module docstring. Backwards run in the reverse order of the forwards (figure 2c of the paper)."""
    kind, ordinal = weave(m, np.full(p, m))
    micro_batch = np.where(kind == B, m - 1 - ordinal, ordinal).astype(np.int32)
    return table(SCHEDULE.id, m, v, kind, micro_batch, None, looped_placement(p, 1), False)


SCHEDULE = ScheduleSpec(
    id="gpipe",
    title="GPipe",
    source="Huang et al. 2019, GPipe, https://arxiv.org/abs/1811.06965, figure 2c",
    construct=construct,
    check=needs_one_chunk("gpipe"),
    split_backward=False,
)
