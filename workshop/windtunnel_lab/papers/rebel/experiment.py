"""Seconds of criteria and of turns."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, reasoned
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def seconds(values: Values, criteria: int, turns: int = 1) -> float:
    """Mean of a question, one at a time."""
    knobs = {"criteria": criteria, "turns": turns, "score_tokens": values["score_tokens"]}
    found = reasoned(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": {"multi_criteria_rerank": knobs},
                "problems": fixed("problems"),
                "concurrency": 1,
                "output_tokens": fixed("answer"),
            },
            "population": {"pass_1": 0.5, "concentration": 0.9},
        }
    )
    return found.last.latency_s["mean"]


def linear(values: Values) -> float:
    """Second difference over the first."""
    few, some, many = (seconds(values, count) for count in fixed("counts"))
    return (many - some) / (some - few)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "linear": linear,
        "turns": lambda v: seconds(v, 3, turns=2) / seconds(v, 3),
    }
