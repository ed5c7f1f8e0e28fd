"""Exact search: take candidates in the order of their bounds, simulate, stop when no bound is below the best found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from windtunnel.errors import BadInput
from windtunnel.planner.screen import Bounds, Case
from windtunnel.planner.space import Candidates
from windtunnel.specs.plan import PlanSpec
from windtunnel.training.simulate import memory_of, prepare, step_time


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One simulated candidate."""

    layout: int
    policy: int
    plan: PlanSpec
    bound_s: float
    step_time_s: float
    reserved_bytes: float | None
    """None where the time alone ruled it out."""
    fits: bool | None


@dataclass(frozen=True, slots=True)
class Proof:
    """Why no candidate beats the best: every one was pruned by a bound or simulated."""

    candidates: int
    pruned_by_memory: int
    pruned_by_bound: int
    simulated: int
    refused: int
    """The simulator's own rules refused them."""
    best_s: float
    next_bound_s: float
    """Smallest bound that was not simulated; at least `best_s` when `complete`."""
    complete: bool

    @property
    def gap(self) -> float:
        """How much faster than the best an unsimulated plan could still be, as a share."""
        return max(0.0, 1.0 - self.next_bound_s / self.best_s) if np.isfinite(self.best_s) else 1.0


@dataclass(slots=True)
class Found:
    """What a search has found so far."""

    best: Evaluated | None = None
    evaluated: list[Evaluated] = field(default_factory=list)
    refused: list[tuple[PlanSpec, str]] = field(default_factory=list)


def search(
    case: Case,
    x: Candidates,
    bounds: Bounds,
    *,
    memory_fraction: float = 1.0,
    report: Callable[[int, float, float], None] | None = None,
) -> tuple[Found, Proof]:
    """The fastest plans that fit, with the proof.

    Args:
        case: model, cluster, training.
        x: the candidates.
        bounds: their bounds.
        memory_fraction: share of device memory that a plan may reserve.
        report: called with (simulated, best so far in s, next bound in s).

    Ctrl-C ends the search with what it has; the proof then says how far it got.
    """
    capacity = case.cluster.device.memory_bytes * memory_fraction
    able = x.legal & (bounds.memory_bytes <= capacity)
    flat = np.flatnonzero(able & np.isfinite(bounds.time_s))
    order = flat[np.argsort(bounds.time_s.reshape(-1)[flat], kind="stable")]
    found = Found()
    best_s = float("inf")
    at, complete = 0, True
    try:
        while at < len(order):
            layout, policy = divmod(int(order[at]), able.shape[1])
            bound = float(bounds.time_s[layout, policy])
            if bound >= best_s:
                break
            plan = x.plan(layout, policy)
            try:
                step = prepare(case.model, case.cluster, case.training, plan, case.techniques)
            except BadInput as error:
                found.refused.append((plan, str(error)))
                at += 1
                continue
            seconds = step_time(step)
            reserved: float | None = None
            if seconds < best_s:
                reserved = memory_of(step).peak_reserved_bytes
            fits = None if reserved is None else reserved <= capacity
            entry = Evaluated(layout, policy, plan, bound, seconds, reserved, fits)
            found.evaluated.append(entry)
            at += 1
            if fits:
                found.best, best_s = entry, seconds
            if report:
                report(len(found.evaluated), best_s, bound)
    except KeyboardInterrupt:
        complete = False
    left = bounds.time_s.reshape(-1)[order[at]] if at < len(order) else float("inf")
    unpriced = int(able.sum()) - len(order)  # the simulator's rules refused them before there was a bound
    proof = Proof(
        x.count, int(x.legal.sum() - able.sum()), len(order) - at, len(found.evaluated), len(found.refused) + unpriced,
        best_s, float(left), complete,
    )  # fmt: skip
    return found, proof
