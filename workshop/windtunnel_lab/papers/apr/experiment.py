"""Tokens of programs with children, against the published totals and serial text."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


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
