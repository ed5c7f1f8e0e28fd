"""Judge simulated values by the claims of a paper's `claims.yaml`, and simulate the scenarios that claims share.

Intervals come from the research catalogue or from the noise of the measurement, never from the simulated value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from windtunnel import api
from windtunnel.planner.plan_training import plan
from windtunnel.programs.result import ReasonResult
from windtunnel.runs.results import RunResult
from windtunnel.runs.simulate import simulate_run
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claim_tables import band
from windtunnel_lab.reproduce.settings import Values, central, variants

Measure = Callable[[Values], float]

_RULES: dict[str, Callable[[float, float, float], bool]] = {
    "equals": lambda value, limit, _: value == limit,
    "above": lambda value, limit, _: value > limit,
    "at_least": lambda value, limit, _: value >= limit,
    "below": lambda value, limit, _: value < limit,
    "at_most": lambda value, limit, _: value <= limit,
    "absolute": lambda value, limit, published: abs(value - published) <= limit,
}


def holds(rule: dict[str, float], value: float, published: float) -> bool:
    """Whether a value obeys every part of a rule such as `{at_least: 1.08}` or `{absolute: 4}`."""
    return all(_RULES[name](value, limit, published) for name, limit in rule.items())


def result(setting: Values, paper: str, key: str, measure: Measure) -> ClaimResult:
    """One claim: the central value decides, the open settings named by the claim span low to high."""
    claim = setting["claims"][key]
    value = measure(central(setting))
    swept = [value, *(measure(values) for values in variants(setting, claim.get("sweep", ())))]
    published = float(claim["published"])
    within = holds(claim["within"], value, published)
    notes = [setting["assumptions"], *claim.get("notes", ())]
    if not within:
        notes.append("missing: " + claim.get("missing", "not found yet"))
    return ClaimResult(
        id=f"{paper}/{key}",
        claim=claim["text"],
        published=published,
        simulated=value,
        low=min(swept),
        high=max(swept),
        within=within,
        assumptions=tuple(notes),
        band=band(claim["within"], published),
        tier=claim.get("tier", ""),
        holds=claim.get("holds", ""),
    )


def results(setting: Values, paper: str, measures: dict[str, Measure]) -> list[ClaimResult]:
    """All claims of a paper in the order of their measures."""
    return [result(setting, paper, key, measure) for key, measure in measures.items()]


@dataclass(frozen=True, slots=True)
class Simulated:
    """What claims ask of one training step."""

    step_time_s: float
    reserved_bytes: float
    fits: bool
    mfu: float
    hfu: float


@lru_cache(maxsize=4096)
def _simulated(text: str) -> Simulated:
    run = simulate_training(json.loads(text), sensitivities=False)
    return Simulated(run.step_time_s, run.peak_memory_reserved_bytes, run.memory_fits, run.mfu, run.hfu)


def simulated(step: Values) -> Simulated:
    """One training step; equal scenarios are simulated once, claims share them."""
    return _simulated(json.dumps(step, sort_keys=True))


@lru_cache(maxsize=256)
def _ran(text: str) -> RunResult:
    return simulate_run(json.loads(text), sensitivities=False)


def ran(scenario: Values) -> RunResult:
    """One whole run; equal scenarios are simulated once, claims share them."""
    return _ran(json.dumps(scenario, sort_keys=True))


@lru_cache(maxsize=512)
def _served(text: str) -> ServingResult:
    return api.simulate_serving(json.loads(text))


def served(scenario: Values) -> ServingResult:
    """One served scenario; equal scenarios are simulated once, claims share them."""
    return _served(json.dumps(scenario, sort_keys=True))


@lru_cache(maxsize=256)
def _reasoned(text: str) -> ReasonResult:
    return api.simulate_programs(json.loads(text))


def reasoned(scenario: Values) -> ReasonResult:
    """Strategies on one scenario; equal scenarios are simulated once, claims share them."""
    return _reasoned(json.dumps(scenario, sort_keys=True))


@lru_cache(maxsize=1024)
def _planned(text: str) -> str:
    return json.dumps(plan(json.loads(text)).scenario)


def planned(step: Values) -> Values:
    """The scenario with the fastest plan of its search space filled in; equal searches run once.

    Raises:
        Infeasible: no plan fits.
    """
    chosen: Values = json.loads(_planned(json.dumps(step, sort_keys=True)))
    return chosen


def least_fall(values: Sequence[float]) -> float:
    """Smallest ratio of a value to its successor: above 1 when the values fall all the way."""
    return min(before / after for before, after in pairwise(values))
