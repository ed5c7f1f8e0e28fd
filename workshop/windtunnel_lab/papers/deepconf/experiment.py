"""Chains that end at low confidence, on one A100."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.population.beta import from_mean
from windtunnel.programs.attempt_lengths import AttemptLengths
from windtunnel.programs.quality import Quality
from windtunnel.programs.result import Point
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.workload import Workload, drawn_difficulty
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.programs import ProgramsSpec
from windtunnel_lab.reproduce.claims import Measure, reasoned
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def lengths() -> dict[str, Any]:
    """Tokens of a chain."""
    return {
        "distribution": "lognormal",
        "mean": fixed("chain_tokens"),
        "cv": fixed("chain_cv"),
        "max": fixed("most_tokens"),
    }


def run_of(strategy: dict[str, Any], values: Values) -> Point:
    """One problem after another on one device."""
    return reasoned(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": strategy,
                "problems": fixed("problems"),
                "concurrency": 1,
                "input_tokens": fixed("prompt"),
                "output_tokens": lengths(),
                "verifier": {"separation": values["separation"]},
            },
            "population": {"pass_1": fixed("pass_1"), "concentration": fixed("concentration")},
        }
    ).last


def full(values: Values) -> Point:
    """All chains to their ends."""
    return run_of({"best_of_n": {"n": fixed("chains"), "selector": "majority"}}, values)


def knobs(values: Values) -> dict[str, Any]:
    """Of chains that end at low confidence."""
    return {
        "n": fixed("chains"),
        "rule": "confidence",
        "interval": fixed("group"),
        "warmup": fixed("warmup"),
        "keep": values["keep"],
        "correlation": values["correlation"],
    }


def stopped(values: Values) -> Point:
    """Chains that end at low confidence."""
    return run_of({"early_stop": knobs(values)}, values)


def drawn(strategy: str, values: Values, **given: Any) -> int:
    """Generated tokens of all runs of the row, which no device decides."""
    count, own = fixed("runs"), STRATEGIES.get(strategy)
    attempts = Lengths.model_validate(lengths())
    work = Workload(
        spec=ProgramsSpec.model_validate({"strategy": strategy, "problems": count, "offline": True}),
        p=drawn_difficulty(from_mean(fixed("pass_1"), fixed("concentration")).points(count), count, 0),
        prompt_tokens=np.full(count, fixed("prompt"), np.int64),
        lengths=AttemptLengths(attempts, attempts),
        quality=Quality(separation=values["separation"]),
        seed=0,
    )
    graph = ProgramGraph(np.zeros(count))
    own.build(graph, work, {name: knob.default for name, knob in own.knobs.items()} | given)
    return int(graph.finish().requests.output_tokens.sum())


def tokens(values: Values) -> float:
    """Ratio of tokens, over all runs of the row."""
    whole = drawn("best_of_n", values, n=fixed("chains"), selector="majority")
    return drawn("early_stop", values, **knobs(values)) / whole


def faster(values: Values) -> float:
    """Ratio of seconds over that of tokens, of one problem that is simulated."""
    own, whole = stopped(values), full(values)
    return (own.latency_s["mean"] / whole.latency_s["mean"]) / (own.tokens / whole.tokens)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"tokens": tokens, "faster_than_tokens": faster}
