"""Interleaved 1F1B with the usual warm-up also where there are as many micro-batches as stages."""

from __future__ import annotations

from windtunnel.schedules.interleaved_1f1b import check, interleave
from windtunnel.schedules.spec import ScheduleSpec
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """The order of `interleaved_1f1b` without its special case m = p: the last stage keeps one micro-batch and not m.

    Source: `torch/distributed/pipelining/schedules.py`, `ScheduleInterleaved1F1B` (warm-up capped at all forwards).
    """
    return interleave(p, m, v, all_first=False)


SCHEDULE = ScheduleSpec(
    id="interleaved_1f1b_steady",
    title="Interleaved 1F1B, one forward and one backward from the last stage on",
    source="PyTorch, torch.distributed.pipelining, https://docs.pytorch.org/docs/stable/distributed.pipelining.html",
    construct=construct,
    check=check,
    split_backward=False,
)
