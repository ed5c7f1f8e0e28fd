"""One long chain against several that share its tokens: idle devices and full ones."""

from __future__ import annotations

from windtunnel.programs.result import Point
from windtunnel_lab.reproduce.claims import Measure, reasoned
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "backtrack-or-not")
fixed = EXPERIMENT.fixed


def run_of(chains: int, at_once: int) -> Point:
    """Problems whose chains use all of the budget."""
    return reasoned(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": {"backtrack": {"n": chains, "budget": fixed("budget")}},
                "problems": max(at_once, 4),
                "concurrency": at_once,
                "output_tokens": fixed("budget"),
            },
            "population": {"pass_1": 0.5, "concentration": 0.9},
        }
    ).last


def idle() -> float:
    """Ratio of mean seconds, one problem at a time."""
    one, several = (run_of(n, fixed("few")).latency_s["mean"] for n in (1, fixed("chains")))
    return one / several


def full() -> float:
    """Ratio of problems a second, many at once."""
    one, several = (run_of(n, fixed("many")).problems_per_s for n in (1, fixed("chains")))
    return several / one


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"idle": lambda v: idle(), "full": lambda v: full()}
