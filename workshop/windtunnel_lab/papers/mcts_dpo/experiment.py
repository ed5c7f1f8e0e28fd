"""Seconds and shared prompts of a tree search."""

from __future__ import annotations

from windtunnel.programs.result import Point
from windtunnel_lab.reproduce.claims import Measure, reasoned
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "mcts-dpo")
fixed = EXPERIMENT.fixed


def run_of(values: Values, rollouts: int) -> Point:
    """All problems side by side on one device."""
    knobs = {"n": rollouts, "branching": values["branching"], "steps": values["steps"]}
    return reasoned(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": {"mcts": knobs},
                "problems": fixed("problems"),
                "offline": True,
                "input_tokens": fixed("prompt"),
                "output_tokens": fixed("answer"),
            },
            "population": {"pass_1": 0.35, "concentration": 0.9},
        }
    ).last


def in_a_row(values: Values) -> float:
    """Ratio of mean seconds of a problem."""
    few, many = (run_of(values, rollouts).latency_s["mean"] for rollouts in fixed("rollouts"))
    return many / few


def shared(values: Values) -> float:
    """Cached share of prompt tokens."""
    own = run_of(values, fixed("rollouts")[-1])
    return own.cached_tokens / own.prompt_tokens


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"in_a_row": in_a_row, "shared": shared}
