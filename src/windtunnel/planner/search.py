"""Exact search: take candidates in the order of their bounds, simulate, stop when no bound is below the best found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from windtunnel.errors import BadInput
from windtunnel.planner.screen import Bounds, Case
from windtunnel.planner.space import Candidates
from windtunnel.specs.plan import PlanSpec
from windtunnel.training.simulate import Prepared, memory_of, prepare, step_time


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


def simulate(case: Case, plan: PlanSpec) -> Prepared:
    """A candidate's step program."""
    return prepare(case.model, case.cluster, case.training, plan, case.techniques)


def search(
    case: Case,
    x: Candidates,
    bounds: Bounds,
    *,
    memory_fraction: float = 1.0,
    proven: int = 1,
    report: Callable[[int, float, float], None] | None = None,
    deadline_s: float = float("inf"),
) -> tuple[Found, Proof]:
    """The fastest plans that fit, with the proof.

    Args:
        case: model, cluster, training.
        x: the candidates.
        bounds: their bounds.
        memory_fraction: share of device memory that a plan may reserve.
        proven: how many of the fastest plans to prove.
        report: called with (simulated, best so far, next bound).
        deadline_s: stop after so many seconds; the proof then says how far it got. Ctrl-C does the same.
    """
    capacity = case.cluster.device.memory_bytes * memory_fraction
    legal = x.legal & np.isfinite(bounds.time_s)
    fits = legal & (bounds.memory_bytes <= capacity)
    flat = np.flatnonzero(fits)
    order = flat[np.argsort(bounds.time_s.reshape(-1)[flat], kind="stable")]
    found = Found()
    times: list[float] = []
    begun = time.perf_counter()
    at, complete = 0, True
    try:
        while at < len(order):
            layout, policy = divmod(int(order[at]), legal.shape[1])
            bound = float(bounds.time_s[layout, policy])
            limit = sorted(times)[proven - 1] if len(times) >= proven else float("inf")
            if bound >= limit:
                break
            if time.perf_counter() - begun > deadline_s:
                complete = False
                break
            plan = x.plan(layout, policy)
            try:
                step = simulate(case, plan)
            except BadInput as error:
                found.refused.append((plan, str(error)))
                at += 1
                continue
            seconds = step_time(step)
            reserved: float | None = None
            fit: bool | None = None
            if seconds < limit:
                reserved = memory_of(step).peak_reserved_bytes
                fit = reserved <= capacity
            entry = Evaluated(layout, policy, plan, bound, seconds, reserved, fit)
            found.evaluated.append(entry)
            at += 1
            if fit:
                times.append(seconds)
                if found.best is None or seconds < found.best.step_time_s:
                    found.best = entry
            if report:
                report(len(found.evaluated), min(times, default=float("inf")), bound)
    except KeyboardInterrupt:
        complete = False
    left = bounds.time_s.reshape(-1)[order[at]] if at < len(order) else float("inf")
    best = found.best.step_time_s if found.best else float("inf")
    done = len(found.evaluated) + len(found.refused)
    proof = Proof(
        x.count, int(x.legal.sum() - fits.sum()), len(order) - done, len(found.evaluated), len(found.refused), best,
        float(left), complete,
    )  # fmt: skip
    return found, proof
