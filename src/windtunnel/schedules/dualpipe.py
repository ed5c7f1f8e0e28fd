"""DualPipe: two copies of the model, one from each end of the pipeline; micro-batches enter from both ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windtunnel.errors import Problem
from windtunnel.schedules.bidirectional import FAR, columns, enough, stage_order
from windtunnel.schedules.order import read_only, table
from windtunnel.schedules.spec import ScheduleSpec, needs_two_chunks
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits
from windtunnel.systems import card


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """Half of the micro-batches go down through copy 0 (chunk 0), the other half up through copy 1 (chunk 1).

    A stage's near flow is the one that begins at its own end; the second half of the stages mirrors the first.
    """
    half, n = p // 2, m // 2
    kind, flow, number, joined = columns([stage_order(half, min(s, p - 1 - s), n) for s in range(p)])
    copy = np.where((np.arange(p) < half)[:, None], flow, FAR - flow).astype(np.int32)
    k = np.arange(p, dtype=np.int32)
    down, up = np.stack([k, 0 * k], axis=1), np.stack([p - 1 - k, 0 * k + 1], axis=1)
    plain = table(
        SCHEDULE.id,
        m,
        v,
        kind,
        number + n * copy,
        copy,
        np.concatenate([down, up]).astype(np.int32),
        True,
    )
    return read_only(
        replace(plain, copies=2, copy_of=np.repeat(np.arange(2, dtype=np.int32), n), joined=joined.reshape(-1))
    )


def check(p: int, m: int, v: int) -> Problem | None:
    """Even numbers of stages and micro-batches, one chunk of each copy a stage."""
    problem = needs_two_chunks("dualpipe")(p, m, v)
    if problem is None and p % 2:
        problem = Problem("pp", "schedule dualpipe needs an even number of stages", p)
    if problem is None and m % 2:
        problem = Problem("micro_batches", "schedule dualpipe needs an even number", m)
    return problem or enough("dualpipe", 2 * p, m)


SCHEDULE = ScheduleSpec(
    id="dualpipe",
    title="DualPipe",
    source=f"DeepSeek-AI 2024, {card('deepseek-v3').title}, https://arxiv.org/abs/2412.19437, section 3.2.1",
    construct=construct,
    check=check,
    split_backward=True,
    copies=2,
    units=True,
)
