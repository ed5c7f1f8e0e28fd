"""Looser bounds, for pipelines whose stages are not known before a plan is run.

Several copies of a model in one pipeline, a technique's own schedule and gathers that are shared by micro-batches fit
none of the paths that a screen walks. Whatever the order, and wherever parts sit: every micro-batch runs all parts on
some stage, so that a stage has at least their mean; and one micro-batch runs all forwards, then all backwards. A stage
keeps at least the mean of what lasts. Of a schedule that skips parts, those count that it runs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Mask
from windtunnel.errors import BadInput
from windtunnel.parallel.plan_sizes import chosen_schedule, default_split
from windtunnel.planner.bounds.block_costs import Cell, columns
from windtunnel.planner.bounds.data_parallel_costs import Case
from windtunnel.planner.bounds.open_candidates import Balance
from windtunnel.planner.bounds.pipeline_shape import plan_of
from windtunnel.planner.space.candidates import Candidates, Policy
from windtunnel.planner.space.technique_rewrites import Rewritten, rewriting
from windtunnel.techniques.base import ScheduleCase

SAME = "techniques make it the plan of another candidate"
UNDECIDED = "layers and recomputation are not balanced over copies of a model or under a technique's own schedule"


@lru_cache(maxsize=64)
def _copies(schedule: str) -> int:
    return schedules.describe(schedule).copies if schedule in schedules.list_ids() else 1


def is_loose(case: Case, x: Candidates, q: Policy) -> bool:
    """Whether a policy's pipelines have looser bounds alone."""
    if x.base.gather_per_block or any(t.technique.schedule for t in case.techniques):
        return True
    return q.schedule is not None and _copies(q.schedule) > 1


def narrowed(case: Case, x: Candidates) -> Candidates:
    """Candidates less those that cannot run or become what another becomes, and those that nobody can decide."""
    same, open_ = np.zeros(x.legal.shape, np.bool_), np.zeros(x.legal.shape, np.bool_)
    rules: list[tuple[str, Mask]] = []
    if rewriting(case.techniques) or any(t.technique.schedule for t in case.techniques):
        after = Rewritten.of(case, x)
        for reason, cells in after.refused.items():
            rules.append((reason, np.zeros(x.legal.shape, np.bool_)))
            rules[-1][1][cells[:, 0], cells[:, 1]] = True
        same[after.again[:, 0], after.again[:, 1]] = True
        for grid in after.grids:
            undecided = _undecided(case, grid.candidates)[grid.to_columns]
            open_[grid.rows[undecided], grid.columns[undecided]] = True
    else:
        open_ |= _undecided(case, x)
    excluded, legal = dict(x.excluded), x.legal
    for rule, out in (*rules, (SAME, same), (UNDECIDED, open_)):
        if number := int((legal & out).sum()):
            excluded[rule] = number
            legal = legal & ~out
    return x if legal is x.legal else replace(x, legal=legal, excluded=excluded)


def _undecided(case: Case, x: Candidates) -> Mask:
    """Policies that leave something to a partition which it cannot decide."""
    return np.array([q.is_open and is_loose(case, x, q) for q in x.policies], np.bool_)


class Loose:
    """Bounds of candidates one by one."""

    def __init__(self, case: Case, x: Candidates) -> None:
        self.case, self.x = case, x
        self.balance = Balance(case, x)

    def bounds(self, row: int, policy: int, cell: Cell) -> tuple[float, float]:
        """Seconds and bytes that a plan of one candidate takes at least."""
        x, q = self.x, self.x.policies[policy]
        kinds, _ = columns(cell.parts)
        g, n = cell.parts.graph, len(kinds)
        all_again = q.recompute.policy != "none" and q.recompute.num_layers is None
        counts = np.zeros(2 * n + 2)
        for kind, number in Counter(g.depth).items():
            counts[kinds.index(kind) + (0 if all_again else n)] += number
        counts[2 * n :] = 1.0
        s, m = int(x.pp[row]), int(x.m[row])
        runs = self._runs(row, q)
        passes = cell.seconds @ counts
        if runs is None:
            least = max(m * float(passes.sum()) / s, float(passes[0] + passes[1]))
        else:
            layer = float(cell.seconds[:, n : 2 * n].sum(axis=0)[counts[n : 2 * n] + counts[:n] > 0].min())
            ends = cell.seconds[:, 2 * n :].sum(axis=0)
            layers = self._layers(row, q)
            first, last = layers[0] * layer + float(ends[0]), layers[-1] * layer + float(ends[1])
            inner = (runs - 2 * m) * min(layers[1:-1], default=0) * layer
            least = max(m * first, m * last, (m * (first + last) + inner) / s)
        plan = plan_of(cell.plan, x, row, q, self.case.behaviour)
        one = replace(plan, copies=1, schedule="1f1b")
        dense, expert = self.balance.lasting(row, policy, cell, one)
        kept = dense * float(cell.dense_params @ counts) + expert * float(cell.expert_params @ counts)
        return least, kept / s

    def _layers(self, row: int, q: Policy) -> tuple[int, ...]:
        """Layers of the parts of a candidate."""
        base, depth = self.x.base, len(self.case.model.layer_kinds())
        given = q.stage_layers if isinstance(q.stage_layers, tuple) else base.stage_layers
        ends = {"embedding": base.embedding_as_layer, "loss": base.loss_as_layer}
        return given or default_split(depth, int(self.x.pp[row] * self.x.vpp[row]), **ends)

    def _runs(self, row: int, q: Policy) -> int | None:
        """Parts that micro-batches run through, all together, where a technique's schedule skips some."""
        x, hooks = self.x, [t for t in self.case.techniques if t.technique.schedule]
        if not hooks:
            return None
        p, m, v = int(x.pp[row]), int(x.m[row]), int(x.vpp[row])
        case = ScheduleCase(id=chosen_schedule(q.schedule if p > 1 else None, v, self.case.behaviour), p=p, m=m, v=v)
        try:
            for t in hooks:
                case = t.on_schedule(case)
        except BadInput:  # refused where it is run
            return None
        return None if case.own is None or case.own.runs is None else int(case.own.runs.sum())
