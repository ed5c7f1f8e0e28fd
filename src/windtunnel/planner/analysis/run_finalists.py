"""The plans whose expected runs are nearest to the best, each run many times with the same random numbers.

The search compares expected runs in closed form, and its proof is about those. What the closed form leaves out (nodes
that differ, wear, finite crews) is the replications' to say: they decide between the finalists where they can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput, Infeasible
from windtunnel.planner.objectives import Goals
from windtunnel.planner.plan_label import shown
from windtunnel.planner.plan_scenario import scenario_with_plan
from windtunnel.planner.search.branch_and_bound import Branch, Evaluated, Found
from windtunnel.runs.run_bill import replicated
from windtunnel.runs.simulate import prepared_run
from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario

MOST, WITHIN = 6, 0.03
"""Finalists, and how much worse than the best their closed form may be: more than it is off by."""
REPLICATIONS = 100
_TAILS = 1.2816, 1.96
"""Standard errors to the ends of an 80 % interval, and of a 95 % one, which a change of the best plan asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """One plan and its replicated runs."""

    plan: dict[str, Any]
    cluster: dict[str, Any]
    """device, nodes and spares."""
    expected: float
    """The objective in closed form."""
    replicated: float
    """The objective's mean over the replications."""
    interval: tuple[float, float]
    """80 % of that mean."""
    behind: float
    """How much more than the best plan's: mean of the differences in the same random numbers."""
    behind_interval: tuple[float, float]
    days: float
    goodput: float


def run_finalists(
    branches: Sequence[Branch], goals: Goals, found: Found, report: Callable[[str], None]
) -> tuple[tuple[Finalist, ...], Evaluated | None]:
    """The finalists, the best first, and the plan that is best; None where nothing was found.

    Args:
        branches: Clusters of the search.
        goals: What it made best.
        found: What it found.
        report: Called with what goes on.
    """
    best, metric = found.best, goals.objectives[0]
    if best is None or metric.name not in ("days", "run_cost", "carbon_kg"):
        return (), best
    near = [e for e in found.evaluated if e.feasible and e.key[0] <= best.key[0] * (1.0 + WITHIN)]
    near = sorted(near, key=lambda e: e.key)[:MOST]
    runs: list[tuple[Evaluated, Floats, float, float]] = []
    for at, entry in enumerate(near):
        report(f"replications of finalist {at + 1} of {len(near)}")
        try:
            own = _replicated(branches[entry.branch], entry, metric.name)
        except (BadInput, Infeasible):
            continue
        runs.append((entry, *own))
    if not runs:
        return (), best
    means = [float(values.mean()) for _, values, _, _ in runs]
    chosen, first = int(np.argmin(means)), next((i for i, r in enumerate(runs) if r[0] is best), 0)
    mean, error = _difference(runs[first][1], runs[chosen][1])
    if mean <= _TAILS[1] * error:  # the replications cannot tell: the closed form decides
        chosen = first
    rows = [_row(branches, runs[i], runs[chosen], metric.name) for i in np.argsort(means).tolist()]
    return tuple(rows), runs[chosen][0]


def _difference(values: Floats, others: Floats) -> tuple[float, float]:
    """Mean of the differences and its standard error."""
    by = values - others
    return float(by.mean()), float(by.std(ddof=1) / np.sqrt(len(by)))


def _replicated(branch: Branch, entry: Evaluated, name: str) -> tuple[Floats, float, float]:
    """(the objective in every replication, mean days, goodput)."""
    assert branch.setting.run is not None
    source = with_spares(scenario_with_plan(branch, entry.plan), entry)
    x = prepared_run(source, folder=branch.setting.run.folder)
    seconds, bills = replicated(x, REPLICATIONS)
    days = seconds.sum(axis=1) / 86400.0
    of = {"days": days}
    of["run_cost"] = np.array([b.cost if b.cost is not None else np.nan for b in bills])
    of["carbon_kg"] = np.array([b.carbon_kg if b.carbon_kg is not None else np.nan for b in bills])
    return of[name], float(days.mean()), float(seconds[:, 0].sum() / seconds.sum())


def with_spares(scenario: Scenario, entry: Evaluated) -> Scenario:
    """A scenario whose run has the spares that were chosen for a plan."""
    if scenario.run is None or entry.whole_run is None or entry.whole_run.spares == scenario.run.recovery.spares:
        return scenario
    stated = scenario.run.recovery.model_dump(exclude_unset=True) | {"spares": entry.whole_run.spares}
    run = scenario.run.model_dump(exclude_unset=True) | {"recovery": stated}
    return scenario.model_copy(update={"run": RunSpec.model_validate(run)})


def _row(
    branches: Sequence[Branch],
    own: tuple[Evaluated, Floats, float, float],
    best: tuple[Evaluated, Floats, float, float],
    name: str,
) -> Finalist:
    entry, values, days, goodput = own
    branch = branches[entry.branch]
    assert entry.whole_run is not None
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    behind, behind_error = _difference(values, best[1])
    cluster = branch.case.cluster
    return Finalist(
        plan=shown(entry.plan, branch.candidates),
        cluster={"device": cluster.device.id, "nodes": cluster.nodes, "spares": entry.whole_run.spares},
        expected=float(entry.values[name]),
        replicated=mean,
        interval=(mean - _TAILS[0] * error, mean + _TAILS[0] * error),
        behind=behind,
        behind_interval=(behind - _TAILS[0] * behind_error, behind + _TAILS[0] * behind_error),
        days=days,
        goodput=goodput,
    )
