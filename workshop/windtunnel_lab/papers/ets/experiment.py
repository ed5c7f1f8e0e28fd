"""Tree search on one H100 NVL: balanced, and efficient."""

from __future__ import annotations

import json
from functools import lru_cache

from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.traffic import generate
from windtunnel.serving.traffic.trajectories import mean_held
from windtunnel.specs.traffic import TrafficSpec
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
BALANCED, EFFICIENT = "rebase", "ets"


def traffic(method: str, values: Values) -> Values:
    """Searches of all problems, eight at a time."""
    own: Values = {
        "method": method,
        "width": fixed("width"),
        "score_correlation": values["score_correlation"],
        "temperature": fixed("temperature"),
        "steps": {"distribution": "normal", "mean": values["steps"], "cv": fixed("steps_cv"), "min": 1, "max": 25},
    }
    if method == EFFICIENT:
        own |= {"node_cost": fixed("node_cost"), "coverage": fixed("coverage"), "meanings": values["meanings"]}
    step = {
        "distribution": "lognormal",
        "mean": values["step_tokens"],
        "cv": fixed("step_cv"),
        "max": fixed("max_step_tokens"),
    }
    return {
        "concurrency": fixed("concurrency"),
        "num_requests": fixed("problems"),
        "input_tokens": fixed("input"),
        "output_tokens": step,
        "trajectories": own,
    }


def run_of(method: str, values: Values) -> ServingResult:
    """All problems on one device."""
    return served(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "serving": {"engine": fixed("engine"), "pools": [{"plan": {"tp": 1}}], "traffic": traffic(method, values)},
        }
    )


def held(method: str, values: Values) -> tuple[float, float]:
    """Tokens held, shared and with a copy for each trajectory."""
    return _held(json.dumps(traffic(method, values), sort_keys=True))


@lru_cache(maxsize=32)
def _held(text: str) -> tuple[float, float]:
    requests = generate(TrafficSpec.model_validate(json.loads(text))).requests
    shared, alone = mean_held(requests)
    return float(shared.mean()), float(alone.mean())


def throughput(method: str, values: Values) -> float:
    """Searches a second."""
    found = run_of(method, values)
    return float(fixed("problems")) / found.duration_s


def unshared(values: Values) -> float:
    """What sharing saves balanced search."""
    shared, alone = held(BALANCED, values)
    return alone / shared


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "cache": lambda v: held(BALANCED, v)[0] / held(EFFICIENT, v)[0],
        "throughput": lambda v: throughput(EFFICIENT, v) / throughput(BALANCED, v),
        "unshared": unshared,
    }
