"""A pipeline whose micro-batches skip stages in turn: gradients first, else the oldest forward that fits.

First and last stage run every micro-batch; each skips the same number of the stages between, which takes turns, so that
these share the work. Source of the idea: Blagoev et al. 2025, SkipPipe, https://arxiv.org/abs/2502.19913.
"""

from __future__ import annotations

import numpy as np

from windtunnel.errors import Problem
from windtunnel.schedules.order import looped_placement
from windtunnel.schedules.paths import BACKWARD, Net, serve
from windtunnel.schedules.spec import ScheduleError
from windtunnel.schedules.table import B, F, InstructionTable, ScheduleCosts


def passed(p: int, m: int, skipped: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which stages each micro-batch runs through, shape (m, p)."""
    runs = np.ones((m, p), np.bool_)
    for i in range(m):
        for j in range(skipped):
            runs[i, 1 + (i * skipped + j) % (p - 2)] = False
    return runs


def skipping_table(p: int, m: int, skipped: int, costs: ScheduleCosts | None = None) -> InstructionTable:
    """The instruction table.

    Args:
        p: stages, one chunk each.
        m: micro-batches.
        skipped: stages that each skips, fewer than p − 2.
        costs: seconds; absent means all equal.

    Raises:
        ScheduleError: too many stages are skipped, or by every micro-batch.
    """
    if not 0 <= skipped < max(p - 1, 1) or (skipped and p < 3):
        rule = f"must leave both ends and at most skip the {max(p - 2, 0)} stages between"
        raise ScheduleError(Problem("skipped", rule, skipped))
    runs = passed(p, m, skipped)
    if not runs.any(axis=0).all():
        rule = f"are too few for every one of {p} stages to run some, of which each skips {skipped}"
        raise ScheduleError(Problem("micro_batches", rule, m))
    forward = np.ones(p) if costs is None else costs.forward_s.sum(axis=1)
    backward = 2.0 * np.ones(p) if costs is None else (costs.backward_s + costs.weight_s).sum(axis=1)
    hop = 0.0 if costs is None else costs.comm_s
    net = Net(tuple((s,) for s in range(p)), forward, backward, np.full((p, p), hop), tuple(range(p, 0, -1)))
    visits = serve(net, [tuple(np.flatnonzero(own).tolist()) for own in runs]).by_node
    rows = [visits[s] for s in range(p)]
    lengths = np.array([len(own) for own in rows])
    flat = [x for own in rows for x in own]
    table = InstructionTable(
        p=p,
        m=m,
        v=1,
        stage=np.repeat(np.arange(p, dtype=np.int32), lengths),
        kind=np.array([B if x.kind == BACKWARD else F for x in flat], np.int8),
        micro_batch=np.array([x.micro_batch for x in flat], np.int32),
        chunk=np.zeros(len(flat), np.int32),
        stage_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        placement=looped_placement(p, 1),
        split_backward=False,
        schedule="1f1b",
        runs=runs,
    )
    for array in (table.stage, table.kind, table.micro_batch, table.chunk, table.stage_ptr, table.placement, runs):
        array.flags.writeable = False
    return table
