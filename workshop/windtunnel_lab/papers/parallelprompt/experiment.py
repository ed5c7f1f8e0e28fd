"""Prompts in parts against the same prompts as one."""

from __future__ import annotations

import numpy as np

from windtunnel.programs.forks import Fork, divided
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def pair(values: Values) -> tuple[float, float]:
    """Seconds of whole prompts and of prompts in parts."""
    own = {"items": values["items"], "cv": values["cv"], "schema_tokens": values["schema"]}
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        concurrency=1,
        input_tokens=fixed("prompt"),
        output_tokens=values["answer"],
        strategies=[{"best_of_n": {"n": 1, "selector": "random"}}, {"split_prompt": own}],
    )
    whole, parts = reasoned(scenario)
    return whole.latency_s["mean"], parts.latency_s["mean"]


def bound(values: Values) -> float:
    """Tokens of the whole over those of the split and the mean longest part."""
    fork = Fork(blocks=1, width=values["items"], parallel=1.0, cv=values["cv"], instruction_tokens=0, reuse=False)
    answers = np.full(20_000, values["answer"], np.int64)
    longest = divided(answers, fork, np.random.default_rng(0)).threads.max((1, 2)).mean()
    return float(values["answer"] / (longest + values["schema"]))


def speed_up(values: Values) -> float:
    """Whole over parts."""
    whole, parts = pair(values)
    return whole / parts


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"speed_up": speed_up, "bound": lambda v: speed_up(v) / bound(v)}
