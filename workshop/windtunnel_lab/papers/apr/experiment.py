"""Tokens of programs with children, against the published totals and serial text."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, results
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values, load

TITLE = "Adaptive parallel reasoning (Pan et al. 2025)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel_lab.papers.apr")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def scenario(which: int, values: Values) -> Values:
    """Parallel programs of one training, and serial text."""
    own = {
        "children": fixed("children")[which],
        "child_tokens": fixed("sequence")[which],
        "parent_tokens": fixed("sequence")[which],
        "cv": values["cv"],
    }
    return on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        concurrency=1,
        input_tokens=100,
        output_tokens=fixed("serial"),
        strategies=[{"apr": own}, {"best_of_n": {"n": 1, "selector": "random"}}],
    )


def tokens(which: int, values: Values) -> float:
    """Of a parallel program, over the published total."""
    return reasoned(scenario(which, values))[0].tokens / float(fixed("total")[which])


def tokens_a_second(values: Values) -> float:
    """Parallel over serial."""
    rates = [p.tokens / p.latency_s["mean"] for p in reasoned(scenario(0, values))]
    return rates[0] / rates[1]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "tokens_supervised": lambda v: tokens(0, v),
        "tokens_rl": lambda v: tokens(1, v),
        "tokens_a_second": tokens_a_second,
    }


def run() -> list[ClaimResult]:
    """Tokens and their rate."""
    return results(setting(), "apr", measures())
