"""What a search says of whole runs: the best plan's run, the finalists, and what is proven of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.quantities import gib, percent, seconds
from windtunnel.report.plan.text import best_row, metric_words, nodes_words, plan_words, quantity

if TYPE_CHECKING:
    from windtunnel.planner.analysis.run_finalists import Finalist
    from windtunnel.planner.result import PlanResult

HEAD = ("plan", "expected", "replicated (80 %)", "behind the best (80 %)", "goodput")


def run_line(result: PlanResult) -> str:
    """The run of the best plan in one line; empty where nobody asked for runs."""
    row = best_row(result)
    run: dict[str, Any] = {} if row is None else row.whole_run
    if not run:
        return ""
    parts = [f"{run['days']:.4g} days expected, {run['ideal_days']:.4g} without failures and saves"]
    parts += [f"${run['run_cost']:,.0f}"] if run["run_cost"] == run["run_cost"] else []
    parts += [f"{run['carbon_kg'] / 1000:,.4g} t CO₂"] if run["carbon_kg"] == run["carbon_kg"] else []
    parts.append(f"{run['spares']} spares")
    saves = f"{gib(run['checkpoint_bytes'])} saved every {seconds(run['interval_s'])}"
    parts.append(f"{saves}, which stops the steps for {seconds(run['save_s'])}; load {seconds(run['load_s'])}")
    return " · ".join(parts)


def finalist_rows(result: PlanResult) -> list[tuple[str, ...]]:
    """Cells of the finalists, the best first."""
    return [_cells(one, result) for one in result.finalists]


def _cells(one: Finalist, result: PlanResult) -> tuple[str, ...]:
    from windtunnel.planner.objectives import METRICS

    unit = METRICS[result.objectives[0]].unit
    low, high = one.interval
    spread = f"{quantity(one.replicated, unit)} ({quantity(low, unit)} to {quantity(high, unit)})"
    first, last = one.behind_interval
    none = (first, last) == (0.0, 0.0)
    behind = "–" if none else f"{_signed(one.behind, unit)} ({_signed(first, unit)} to {_signed(last, unit)})"
    where = f"{nodes_words(one.cluster['nodes'], one.cluster['device'])}, {one.cluster['spares']} spares"
    plan = plan_words({k: v for k, v in one.plan.items() if k != "dp"})
    return (
        f"{plan} · {where}",
        quantity(one.expected, unit),
        spread,
        behind,
        percent(one.goodput),
    )


def _signed(value: float, unit: str) -> str:
    return ("−" if value < 0 else "+") + quantity(abs(value), unit)


def run_proof_words(result: PlanResult) -> list[str]:
    """What the proof covers of whole runs, and what it does not."""
    row = best_row(result)
    if row is None or not row.whole_run:
        return []
    name = metric_words(result.objectives[0])
    ideal = row.whole_run["ideal_days"]
    out = [
        f"Proven: no plan has a lower expected {name} in closed form; with this plan's step no run can take less than "
        f"{ideal:.4g} days."
    ]
    if result.finalists:
        tied = sum(one.behind_interval[0] <= 0 for one in result.finalists) - 1
        told = f"{tied} of the others cannot be told from the best" if tied > 0 else "the best is told from the others"
        told = "no other plan was near enough to be compared" if len(result.finalists) == 1 else told
        finalists = f"{len(result.finalists)} finalist{'s' if len(result.finalists) > 1 else ''}"
        out.append(
            f"Not proven: what the closed form leaves out (nodes that differ, wear, crews). 100 replications of "
            f"{finalists} in the same random numbers: {told}."
        )
    return out
