"""DualPipeV: DualPipe cut in half, two chunks a stage in a V and one copy of the model."""

from __future__ import annotations

from dataclasses import replace

from windtunnel.errors import Problem
from windtunnel.schedules.bidirectional import columns, enough, stage_order
from windtunnel.schedules.order import read_only, table, v_placement
from windtunnel.schedules.spec import ScheduleSpec, needs_two_chunks
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """The near flow is the way down, the far one the way back up of the same micro-batches."""
    kind, flow, number, joined = columns([stage_order(p, s, m) for s in range(p)])
    plain = table(SCHEDULE.id, m, v, kind, number, flow, v_placement(p), True)
    return read_only(replace(plain, joined=joined.reshape(-1)))


def check(p: int, m: int, v: int) -> Problem | None:
    """Two chunks, and enough micro-batches to fill both ways."""
    return needs_two_chunks("dualpipev")(p, m, v) or enough("dualpipev", 2 * p, m)


SCHEDULE = ScheduleSpec(
    id="dualpipev",
    title="DualPipeV",
    source="Sea AI Lab and DeepSeek-AI 2025, DualPipeV (cut-in-half), https://github.com/deepseek-ai/DualPipe",
    construct=construct,
    check=check,
    split_backward=True,
    units=True,
)
