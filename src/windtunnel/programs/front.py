"""What no other candidate beats, and the best one within limits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from windtunnel.programs.result import Point
from windtunnel.specs.search import PROGRAMS_OBJECTIVES, SearchSpec


def figure(point: Point, objective: str) -> float | None:
    """A figure by the name of its objective; None where it is not known."""
    match objective:
        case "accuracy":
            return None if point.accuracy is None else point.accuracy.mean
        case "cost_per_task":
            return point.cost_usd
        case "joules_per_task":
            return point.energy_j
        case "deadline_met":
            return point.deadline_met
    return point.latency_s[objective.removeprefix("latency_").removesuffix("_s")]


def on_front(points: Sequence[Point]) -> list[bool]:
    """Whether each candidate is beaten by no other: none is as good in all figures and better in one.

    Figures are accuracy, cost, energy, p50 and p99 of latency. What no candidate has is left out; a candidate without
    a figure that others have is worst in it.
    """
    columns = []
    for name in PROGRAMS_OBJECTIVES:
        sign = -1.0 if name == "accuracy" else 1.0
        values = [figure(p, name) for p in points]
        if any(v is not None for v in values):
            columns.append([math.inf if v is None or math.isnan(v) else sign * v for v in values])
    table = np.array(columns).T
    out = []
    for row in table:
        as_good, better = (table <= row).all(1), (table < row).any(1)
        out.append(not bool((as_good & better).any()))
    return out


def limits_of(search: SearchSpec | None) -> dict[str, float]:
    """Limits that are stated, by objective."""
    if search is None:
        return {}
    found = {name: getattr(search.limits, name) for name in PROGRAMS_OBJECTIVES}
    return {name: float(value) for name, value in found.items() if value is not None}


def keeps(point: Point, limits: dict[str, float]) -> bool:
    """Whether a candidate keeps all limits; what is not known keeps none."""
    for name, limit in limits.items():
        value = figure(point, name)
        least = name in ("accuracy", "deadline_met")
        if value is None or math.isnan(value) or (value < limit if least else value > limit):
            return False
    return True


def best_of(points: Sequence[Point], objective: str, limits: dict[str, float]) -> Point | None:
    """The best candidate that keeps the limits; of equally good ones the cheapest. None where none keeps them."""
    able = [p for p in points if keeps(p, limits) and figure(p, objective) is not None]
    sign = -1.0 if objective == "accuracy" else 1.0

    def order(p: Point) -> tuple[float, float]:
        value = figure(p, objective)
        assert value is not None
        return sign * value, p.cost_usd if p.cost_usd is not None else math.inf

    return min(able, key=order, default=None)
