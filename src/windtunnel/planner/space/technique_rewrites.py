"""Candidates whose plans techniques rewrite: what they become, and which of them become the same.

A technique's `decide` and `plan` hooks may set any field of a plan, those that a search varies among them. Bounds of
what a candidate was written as would then be bounds of another plan. Here every candidate goes through the hooks once,
what comes out is laid out as candidates again, and bounds are those of the latter.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.errors import BadInput
from windtunnel.planner.case import Case
from windtunnel.planner.space.candidates import LAYOUT_AXES, Candidates, Policy
from windtunnel.planner.space.refusals import Refusals
from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Applied

_POLICY = tuple(
    name for name in (f.name for f in fields(Policy)) if name in PlanSpec.model_fields and name != "stage_layers"
)
"""Fields of a plan that a policy sets as they are."""
_REST = tuple(f for f in PlanSpec.model_fields if f not in (*_POLICY, *LAYOUT_AXES, "dp", "stage_layers"))
"""Fields that no axis of a search varies, but a technique may."""


def rewriting(techniques: Sequence[Applied]) -> bool:
    """Whether any of them may set fields of a plan."""
    return any(t.technique.plan or t.technique.decide or t.technique.selects for t in techniques)


Decided = dict[Hashable, dict[str, Any]]
"""Technique and the fields that its decision reads → the fields that it sets."""


def effective(case: Case, plan: PlanSpec, decided: Decided | None = None) -> PlanSpec | None:
    """The plan that runs; None where that cannot be determined without running it.

    Args:
        case: what all candidates share.
        plan: as a candidate writes it.
        decided: decisions so far, of plans that share the fields which no axis varies.

    Raises:
        BadInput: a technique refuses the plan.
    """
    known: Decided = {} if decided is None else decided
    for t in case.techniques:
        plan = _decided(case, plan, t, known)
    once = _planned(case, plan)
    return once if _planned(case, once) == once else None


def became(case: Case, x: Candidates, row: int, policy: int, decided: Decided) -> PlanSpec | None:
    """`effective` of one candidate, remembered.

    Raises:
        BadInput: a technique refuses the plan.
    """
    key = id(x.base), x.sizes(row), x.policies[policy]
    if key not in case.rewritten:  # with the base, so that no other takes its place in memory
        case.rewritten[key] = x.base, effective(case, x.plan(row, policy), decided)
    return case.rewritten[key][1]


def _decided(case: Case, plan: PlanSpec, t: Applied, known: Decided) -> PlanSpec:
    if not t.technique.decide or not t.technique.reads:
        return t.on_decision(plan, case.model, case.cluster, case.training)
    key = (t.technique.id, *(_plain(getattr(plan, name)) for name in t.technique.reads))
    if key not in known:
        made = t.on_decision(plan, case.model, case.cluster, case.training)
        both = ((name, getattr(plan, name), getattr(made, name)) for name in PlanSpec.model_fields)
        known[key] = {name: after for name, before, after in both if after != before}
    return plan.model_copy(update=known[key]) if known[key] else plan


def _plain(value: Any) -> Hashable:
    """A value as a key; records that all candidates share by what they are."""
    return value if value is None or isinstance(value, int | float | str | tuple) else id(value)


def _planned(case: Case, plan: PlanSpec) -> PlanSpec:
    for t in case.techniques:
        plan = t.on_plan(plan)
    return plan


@dataclass(frozen=True, slots=True)
class RewrittenGrid:
    """Rewritten candidates that share every field which no axis varies."""

    candidates: Candidates
    rows: Ints
    columns: Ints
    """Cells of the original grid, (n,) each."""
    to_rows: Ints
    to_columns: Ints
    """And what they have become."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """All candidates of a search space after the techniques."""

    grids: tuple[RewrittenGrid, ...]
    unknown: Ints
    """Cells (n, 2) of which only a simulation tells what they become."""
    again: Ints
    """Cells (n, 2) that become what another one, which counts, also becomes."""
    refused: dict[str, Ints]
    """Reason → cells (n, 2), of the unknown ones, that become what cannot run."""

    @classmethod
    def of(cls, case: Case, x: Candidates) -> Rewritten:
        """Every legal candidate through the hooks of its techniques."""
        found: dict[Hashable, list[tuple[int, int, tuple[int, ...], Policy]]] = {}
        bases: dict[Hashable, PlanSpec] = {}
        decided: Decided = {}
        counted: dict[Hashable, tuple[tuple[int, int], bool]] = {}
        unknown: list[tuple[int, int]] = []
        again: list[tuple[int, int]] = []
        refused: dict[str, list[tuple[int, int]]] = {}
        refusals = Refusals(case)
        for i, j in np.argwhere(x.legal).tolist():
            try:
                plan = became(case, x, i, j, decided)
                reason = None if plan is None else refusals.of(plan)
            except BadInput as error:
                plan, reason = None, refusals.words(error.problems)
            if reason is not None:
                refused.setdefault(reason, []).append((i, j))
            if plan is None or reason is not None:
                unknown.append((i, j))
                continue
            sizes, policy, rest = _sizes(case, plan), _policy(x.policies[j], x.plan(i, j), plan), _rest(plan, x.base)
            name, as_written = (rest, sizes, policy), sizes == x.sizes(i)
            if name not in counted:
                counted[name] = (i, j), as_written
            elif as_written and not counted[name][1]:  # of those that become the same, one that says so itself
                again.append(counted[name][0])
                counted[name] = (i, j), True
            else:
                again.append((i, j))
            bases.setdefault(rest, plan)
            found.setdefault(rest, []).append((i, j, sizes, policy))
        grids = tuple(_grid(bases[rest], cells) for rest, cells in found.items())
        return cls(grids, _cells(unknown), _cells(again), {why: _cells(cells) for why, cells in refused.items()})

    def located(self, row: int, column: int) -> tuple[Candidates, int, int] | None:
        """What one cell has become; None where that is unknown."""
        for grid in self.grids:
            at = np.flatnonzero((grid.rows == row) & (grid.columns == column))
            if len(at):
                return grid.candidates, int(grid.to_rows[at[0]]), int(grid.to_columns[at[0]])
        return None


def _cells(found: list[tuple[int, int]]) -> Ints:
    return np.array(found, np.int64).reshape(-1, 2)


def _sizes(case: Case, plan: PlanSpec) -> tuple[int, ...]:
    """Axis sizes, replicas and micro-batches of a plan that the simulator does not refuse."""
    dp = case.cluster.num_devices // (plan.tp * plan.pp * plan.cp)
    m = case.training.global_batch // (plan.mbs * dp)
    return (*(int(getattr(plan, name)) for name in LAYOUT_AXES), dp, m)


def _policy(q: Policy, before: PlanSpec, after: PlanSpec) -> Policy:
    """The switches of a rewritten plan; what was left open stays open unless a technique has decided it."""
    fields: dict[str, Any] = {name: getattr(after, name) for name in _POLICY}
    split: str | tuple[int, ...] | None = after.stage_layers
    if split == before.stage_layers:
        split = q.stage_layers if q.stage_layers is not None else split
    free = q.balanced_recompute and after.recompute == before.recompute
    return replace(q, **fields, stage_layers=split, balanced_recompute=free)


def _rest(plan: PlanSpec, base: PlanSpec) -> Hashable:
    """Fields that no axis varies, where they are not as for all candidates."""
    out = []
    for name in _REST:
        value = getattr(plan, name)
        if value is not getattr(base, name):
            out.append((name, repr(value)))
    return tuple(out)


def _grid(base: PlanSpec, cells: list[tuple[int, int, tuple[int, ...], Policy]]) -> RewrittenGrid:
    layouts = {sizes: at for at, sizes in enumerate(dict.fromkeys(c[2] for c in cells))}
    policies = {policy: at for at, policy in enumerate(dict.fromkeys(c[3] for c in cells))}
    to_rows, to_columns = (
        np.array([layouts[c[2]] for c in cells], np.int64),
        np.array([policies[c[3]] for c in cells], np.int64),
    )
    legal = np.zeros((len(layouts), len(policies)), np.bool_)
    legal[to_rows, to_columns] = True
    columns = np.array(list(layouts), np.int64).T
    axes = dict(zip((*LAYOUT_AXES, "dp", "m"), columns, strict=True))
    y = Candidates(**axes, policies=tuple(policies), legal=legal, base=base.model_copy(update={"stage_layers": None}))
    rows, origin = (np.array([c[k] for c in cells], np.int64) for k in (0, 1))
    return RewrittenGrid(y, rows, origin, to_rows, to_columns)
