"""Seconds and shared prompts of a tree search."""

from __future__ import annotations

from typing import Any

from windtunnel.programs.result import Point
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, reasoned, results
from windtunnel_lab.reproduce.settings import Values, load

TITLE = "Monte Carlo tree search for preferences (Xie et al. 2024)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel_lab.papers.mcts_dpo")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


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


def run() -> list[ClaimResult]:
    """All claims of the paper."""
    return results(setting(), "mcts-dpo", measures())
