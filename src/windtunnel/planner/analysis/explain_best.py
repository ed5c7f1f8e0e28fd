"""Why the best plan is the best: what the runner-up loses, the best of every tp and pp, what each limit costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Ints, Mask
from windtunnel.differences import deltas
from windtunnel.planner.objectives import Setting
from windtunnel.planner.plan_label import recompute_words
from windtunnel.planner.plan_scenario import scenario_with_plan
from windtunnel.planner.search.branch_and_bound import Branch, Evaluated
from windtunnel.planner.search.requery import UNLIMITED_BYTES, FinishedSearch
from windtunnel.planner.space.candidates import Candidates
from windtunnel.training.explain.resource_scaling import scaled
from windtunnel.training.predict import simulate_training
from windtunnel.training.results.training_result import TrainingResult

LAYOUT = ("tp", "pp", "cp", "ep", "dp")
"""How devices are cut up. Plans that agree in these differ in how a layout is run: chunks, micro-batch, switches."""


@dataclass(frozen=True, slots=True)
class TpPpBest:
    """The best plan of one tp and pp."""

    tp: int
    pp: int
    bound_s: float
    """No plan of the cell that keeps to the limits is faster."""
    simulated_s: float | None
    """Fastest simulated plan of the cell that keeps to the limits, None where none was simulated."""

    @property
    def shown_s(self) -> float:
        """What a table shows: the simulation where there is one, else the bound."""
        return self.bound_s if self.simulated_s is None else self.simulated_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCost:
    """What lifting one limit would bring."""

    name: str
    limit: float
    unit: str
    gain: float
    """How much better `of` would be, as a share of what it is; 0 where the limit costs nothing."""
    of: str = "step_time"
    """The first objective, or the step time where only that would be better."""
    plan: dict[str, Any] | None = None
    """The plan that would be the best."""
    step_time_s: float | None = None
    needs: float | None = None
    """What that plan takes of the limited quantity, in `unit`."""


@dataclass(frozen=True, slots=True)
class ClusterBest:
    """The best plan of one cluster and precision, by the first objective."""

    device: str
    nodes: int
    precision: str
    bound: float
    """No plan of the cluster that keeps to the limits is better."""
    simulated: float | None
    """Best simulated plan of the cluster that keeps to the limits, None where none was simulated."""


@dataclass(frozen=True, slots=True)
class BoundFront:
    """The Pareto front of the bounds: no plan takes less time with as little memory. Shapes (n,), time rising."""

    time_s: tuple[float, ...]
    memory_bytes: tuple[float, ...]
    plans: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What a search knows beyond its best plan."""

    runner_up: TrainingResult | None
    """The best plan on the same cluster that cuts its devices otherwise (`LAYOUT`); exact. None where there is none."""
    runner_up_plan: dict[str, Any] | None
    runner_up_worse: float
    """How much worse it is at the first objective, as a share of the best plan's value."""
    seconds_by_class: dict[str, float]
    """Class of time → what the runner-up takes more than the best plan."""
    cells: tuple[TpPpBest, ...]
    """Every tp and pp of the best plan's cluster with a plan that may keep to the limits."""
    limits: tuple[LimitCost, ...]
    bound_front: BoundFront
    clusters: tuple[ClusterBest, ...]
    """Every cluster and precision of the search with a plan that may keep to the limits; empty where there is one."""
    simulations: int
    """Plans simulated for these answers, beyond those of the search."""

    def best_by(self, axis: str) -> dict[int, TpPpBest]:
        """Value of tp or pp → the best cell that has it."""
        out: dict[int, TpPpBest] = {}
        for cell in self.cells:
            value = int(getattr(cell, axis))
            if value not in out or cell.shown_s < out[value].shown_s:
                out[value] = cell
        return dict(sorted(out.items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        other = self.runner_up
        return {
            "runner_up": None
            if other is None
            else {
                "plan": self.runner_up_plan,
                "step_time_s": other.step_time_s,
                "peak_memory_reserved_bytes": other.peak_memory_reserved_bytes,
                "breakdown": other.breakdown,
                "worse": self.runner_up_worse,
            },
            "seconds_by_class": self.seconds_by_class,
            "cells": [asdict(c) for c in self.cells],
            "limits": [asdict(x) for x in self.limits],
            "clusters": [asdict(c) for c in self.clusters],
            "simulations": self.simulations,
        }


def why(
    finished: FinishedSearch, best: Evaluated, result: TrainingResult, report: Callable[[str], None] | None = None
) -> Why:
    """Runner-up, best of every tp and pp, and cost of the limits.

    Args:
        finished: the finished search.
        best: its winner.
        result: the winner's prediction.
        report: called with what comes next.

    Raises:
        KeyboardInterrupt: as it was.
    """
    say = report or (lambda _: None)
    say("runner-up")
    mine = same_layout(finished.branches[best.branch].candidates, best.layout)
    other = finished.best(lambda i: ~mine[:, None] if i == best.branch else np.zeros((1, 1), np.bool_))
    runner, worse = None, 0.0
    if other is not None:
        worse = _share(other.key[0], best.key[0])
        runner = simulate_training(scenario_with_plan(finished.branches[other.branch], other.plan), sensitivities=False)
    say("what limits cost")
    limits = _limits(finished, best)
    classes = {} if runner is None else deltas(result.breakdown, runner.breakdown)
    return Why(
        runner_up=runner,
        runner_up_plan=None if other is None else axes(other, finished, cluster=False),
        runner_up_worse=worse,
        seconds_by_class=classes,
        cells=best_by_tp_pp(finished, best.branch),
        limits=limits,
        bound_front=_bound_front(finished, best.branch),
        clusters=clusters(finished),
        simulations=finished.simulations,
    )


def _share(value: float, of: float) -> float:
    return (value - of) / abs(of) if of else 0.0


def clusters(finished: FinishedSearch) -> tuple[ClusterBest, ...]:
    """The best of every cluster that may keep to the limits: simulated where a plan of it was, else the least bound."""
    if len(finished.branches) < 2:
        return ()
    metric, out = finished.goals.objectives[0], []
    for i, branch in enumerate(finished.branches):
        case = branch.case
        if not branch.screening.done and branch.broken_limit(finished.goals):
            continue
        if not branch.screening.done:  # the search never came to it
            possible = metric.bound(finished.goals.within(branch.setting), branch.cluster_floor)
            named = case.cluster.device.id, case.cluster.nodes, case.training.precision
            out.append(ClusterBest(*named, float(np.asarray(possible).reshape(-1)[0]), None))
            continue
        done = [e for (number, _), e in finished.known.items() if number == i and e.feasible]
        width = branch.candidates.legal.shape[1]
        able = finished.within_limits(i)
        for (number, cell), entry in finished.known.items():
            if number == i and (entry.fits is False or entry.missed):
                able[divmod(cell, width)] = False
        bound = metric.signed(
            metric.bound(finished.goals.within(branch.setting), branch.lower_bounds(np.flatnonzero(able)))
        )
        if not len(bound):
            continue
        simulated = min((e.key[0] for e in done), default=None)
        out.append(
            ClusterBest(
                case.cluster.device.id,
                case.cluster.nodes,
                case.training.precision,
                float(metric.signed(bound.min())),
                None if simulated is None else float(metric.signed(simulated)),
            )
        )
    return tuple(out)


def same_layout(x: Candidates, row: int) -> Mask:
    """Which layouts (N,) cut the devices as one of them does."""
    same: Mask = np.ones(len(x.tp), np.bool_)
    for axis in LAYOUT:
        column: Ints = getattr(x, axis)
        same &= column == column[row]
    return same


def axes(e: Evaluated, finished: FinishedSearch, *, cluster: bool = True) -> dict[str, Any]:
    """A plan in short: its layout, chunks, micro-batch and recomputation, and its cluster where that varies."""
    plan = e.plan
    named = {name: getattr(plan, name) for name in (*LAYOUT, "vpp", "mbs")}
    out = {**named, "recompute": recompute_words(plan)}
    if plan.stage_layers:
        out["stage_layers"] = " ".join(map(str, plan.stage_layers))
    if cluster and len(finished.branches) > 1:
        case = finished.branches[e.branch].case
        out |= {"device": case.cluster.device.id, "nodes": case.cluster.nodes, "precision": case.training.precision}
    return out


def best_by_tp_pp(finished: FinishedSearch, which: int) -> tuple[TpPpBest, ...]:
    """The best of every tp and pp: simulated where a plan of the cell was, else the least bound."""
    branch = finished.branches[which]
    x, width = branch.candidates, branch.candidates.legal.shape[1]
    least_s = np.where(finished.within_limits(which), branch.bounds.time_s, np.inf)
    known: dict[tuple[int, int], float] = {}
    for (number, cell), entry in finished.known.items():
        if number != which:
            continue
        layout, policy = divmod(cell, width)
        # a simulated plan replaces its bound; one that breaks a limit leaves
        out = entry.fits is False or bool(entry.missed)
        least_s[layout, policy] = np.inf if out else entry.step_time_s
        if entry.feasible:
            at = int(x.tp[layout]), int(x.pp[layout])
            known[at] = min(known.get(at, np.inf), entry.step_time_s)
    smallest = least_s.min(axis=1)
    found = []
    for tp, pp in np.unique(np.stack([x.tp, x.pp]), axis=1).T.tolist():
        bound = float(smallest[(x.tp == tp) & (x.pp == pp)].min())
        if np.isfinite(bound):
            found.append(TpPpBest(tp, pp, bound, known.get((tp, pp))))
    return tuple(found)


def _limits(finished: FinishedSearch, best: Evaluated) -> tuple[LimitCost, ...]:
    """The best plan without one limit at a time; the others stay."""
    goals, out = finished.goals, []
    for limit in goals.limits:
        lifted = replace(goals, limits=tuple(x for x in goals.limits if x is not limit))
        found = finished.best(goals=lifted)
        needs = None if found is None else found.values.get(limit.metric.name)
        out.append(_cost(finished, best, limit.metric.name, limit.value, limit.metric.unit, found, needs))
    if any("memory" in m.needs for m in goals.metrics):
        return tuple(out)  # head-room is measured against the memory that would be lifted
    size = finished.branches[best.branch].setting.memory_bytes
    if goals.memory_fraction < 1.0:
        unlimited = [finished.branch_without_memory_limit(i) for i in range(len(finished.branches))]
        found = finished.best(goals=replace(goals, memory_fraction=1.0), branches=unlimited)
        needs = None
        if found is not None and found.reserved_bytes is not None:
            needs = found.reserved_bytes / finished.branches[found.branch].setting.memory_bytes
        out.append(_cost(finished, best, "memory_fraction", goals.memory_fraction, "share", found, needs))
    endless = [_endless(finished, i, b) for i, b in enumerate(finished.branches)]
    found = finished.best(goals=replace(goals, memory_fraction=1.0), branches=endless)
    out.append(_cost(finished, best, "device memory", size, "bytes", found, found.reserved_bytes if found else None))
    return tuple(out)


def _endless(finished: FinishedSearch, which: int, branch: Branch) -> Branch:
    """The same branch on devices whose memory nothing exceeds."""
    cluster = scaled(branch.case.cluster, "device memory", UNLIMITED_BYTES / branch.case.cluster.device.memory_bytes)
    case = branch.case.on(cluster, anew=False)
    setting = Setting.of(cluster, case.training, branch.setting.run_tokens, branch.setting.run)
    return replace(finished.branch_without_memory_limit(which), case=case, setting=setting, concrete={})


def _cost(
    finished: FinishedSearch,
    best: Evaluated,
    name: str,
    limit: float,
    unit: str,
    found: Evaluated | None,
    needs: float | None,
) -> LimitCost:
    if found is None or found.key >= best_key(best):
        return LimitCost(name=name, limit=limit, unit=unit, gain=0.0)
    of, gain = finished.goals.objectives[0].name, -_share(found.key[0], best.key[0])
    if gain <= 0.0:
        of, gain = "step_time", 1.0 - found.step_time_s / best.step_time_s
    return LimitCost(
        name=name,
        limit=limit,
        unit=unit,
        gain=gain,
        of=of,
        plan=axes(found, finished),
        step_time_s=found.step_time_s,
        needs=needs,
    )


def best_key(best: Evaluated) -> tuple[float, float]:
    """Key of the first objective alone."""
    return best.key[0], best.key[-1]


def _bound_front(finished: FinishedSearch, which: int) -> BoundFront:
    """The Pareto front of the bounds of time and memory, device memory aside."""
    branch, bounds = finished.branches[which], finished.bounds_without_memory_limit(which)
    x = branch.candidates
    flat = np.flatnonzero(x.legal & np.isfinite(bounds.time_s))
    time_s, memory = bounds.time_s.reshape(-1)[flat], bounds.memory_bytes.reshape(-1)[flat]
    order = np.lexsort((memory, time_s))
    lowest = np.minimum.accumulate(memory[order])
    first = np.concatenate([[True], lowest[1:] < lowest[:-1]]) if len(order) else np.zeros(0, np.bool_)
    kept = order[first]
    plans = []
    for cell in flat[kept].tolist():
        layout, policy = divmod(cell, x.legal.shape[1])
        plan = x.plan(layout, policy)
        plans.append({n: getattr(plan, n) for n in (*LAYOUT, "vpp", "mbs")} | {"recompute": plan.recompute.policy})
    return BoundFront(tuple(time_s[kept].tolist()), tuple(memory[kept].tolist()), tuple(plans))
