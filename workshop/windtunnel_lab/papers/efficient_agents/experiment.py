"""What the published costs say of the published improvement of cost of pass."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "efficient-agents")
fixed = EXPERIMENT.fixed


def cost_of_pass(cost: float, success: float) -> float:
    """Dollars for one task that succeeds."""
    return cost / success


def of_tasks() -> float:
    """Improvement, %, where the costs are those of a task; success of the baseline cancels."""
    before, after = fixed("costs")
    return 100.0 * (1.0 - cost_of_pass(after, fixed("retained")) / cost_of_pass(before, 1.0))


def of_passes() -> float:
    """Improvement, %, where the costs are those of a pass already."""
    before, after = fixed("costs")
    return float(100.0 * (1.0 - after / before))


def retained() -> float:
    """Share of performance that would have to remain for the stated improvement."""
    before, after = fixed("costs")
    return float(after / before / (1.0 - fixed("stated") / 100.0))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "of-tasks": lambda _: of_tasks(),
        "of-passes": lambda _: of_passes(),
        "retained": lambda _: retained(),
    }
