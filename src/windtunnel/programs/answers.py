"""What people ask of a front: accuracy at a budget, a verifier's worth, size against samples, own devices or API."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from windtunnel.programs.result import Point
from windtunnel.specs.programs import ApiPriceSpec, ProgramsSpec

DAY_S = 86400.0


def answers(points: Sequence[Point], spec: ProgramsSpec) -> dict[str, Any]:
    """All answers that the candidates allow.

    Args:
        points: candidates.
        spec: what the scenario asks: prices of a provider, a deadline, loads.
    """
    api = spec.api_price
    out: dict[str, Any] = {"accuracy_at_cost": accuracy_at_cost(points)}
    if worth := verifier_worth(points):
        out["verifier_worth"] = worth
    if sizes := cheapest_model(points):
        out["cheapest_model"] = sizes
        out["accuracy_at_eflop"] = accuracy_at(points, "eflop")
    if spec.deadline_s is not None and spec.loads:
        out["most_in_time"] = most_in_time(points, spec.deadline_share)
    if api is not None:
        out["break_even"] = [own for p in points if (own := break_even(p, api)) is not None]
    return out


def accuracy_at_cost(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Budgets in USD a problem, rising, with the best candidate that each one pays for."""
    known = sorted((p for p in points if p.cost_usd is not None and p.accuracy is not None), key=_cost)
    out: list[dict[str, Any]] = []
    best = -1.0
    for p in known:
        assert p.accuracy is not None
        if p.accuracy.mean > best:
            best = p.accuracy.mean
            out.append(
                {
                    "cost_usd": p.cost_usd,
                    "accuracy": best,
                    "accuracy_interval": p.accuracy.to_dict()["interval"],
                    "model": p.model,
                    "label": p.label,
                }
            )
    return out


def accuracy_at(points: Sequence[Point], cost: str) -> list[dict[str, Any]]:
    """Budgets in another cost of a problem (`flop`, `eflop`), rising, with the best candidate that each one pays for.

    Model size against samples by a cost law (Kinetics): which model, and how many attempts, a budget is best spent on.
    """
    known = sorted((p for p in points if p.accuracy is not None), key=lambda p: float(getattr(p, cost)))
    out: list[dict[str, Any]] = []
    best = -1.0
    for p in known:
        assert p.accuracy is not None
        if p.accuracy.mean > best:
            best = p.accuracy.mean
            own = {"accuracy": best, "model": p.model, "label": p.label, "n": p.n}
            out.append({cost: getattr(p, cost), "share_of_reading": 1.0 - p.flop / p.eflop if p.eflop else 0.0, **own})
    return out


def verifier_worth(points: Sequence[Point]) -> list[dict[str, Any]]:
    """For each candidate that is scored: what its accuracy costs without scores, on the same model.

    `worth_usd` is what a problem's scores may cost before they no longer pay: the difference to the cheapest way
    without them, between whose candidates costs are interpolated over the logarithm of cost. It is None where no
    number of attempts without scores was seen to reach the accuracy.
    """
    out = []
    for p in points:
        if not p.scored or p.cost_usd is None or p.accuracy is None:
            continue
        others = [o for o in points if (o.model, o.load) == (p.model, p.load) and not o.scored]
        without = cost_of_accuracy(others, p.accuracy.mean)
        out.append(
            {
                "model": p.model,
                "label": p.label,
                "accuracy": p.accuracy.mean,
                "cost_usd": p.cost_usd,
                "cost_without_usd": without,
                "worth_usd": None if without is None else without - p.cost_usd,
            }
        )
    return out


def cheapest_model(points: Sequence[Point]) -> list[dict[str, Any]]:
    """For accuracies that several models reach: what each model asks for it, the cheapest first."""
    models = list(dict.fromkeys(p.model for p in points))
    if len(models) < 2:
        return []
    levels = sorted({round(p.accuracy.mean, 3) for p in points if p.accuracy is not None})
    out = []
    for level in levels:
        costs = {m: cost_of_accuracy([p for p in points if p.model == m], level) for m in models}
        known = {m: c for m, c in costs.items() if c is not None}
        if len(known) > 1:
            order = sorted(known, key=lambda m: known[m])
            out.append({"accuracy": level, "cheapest": order[0], "cost_usd": {m: known[m] for m in order}})
    return out


def most_in_time(points: Sequence[Point], share: float) -> list[dict[str, Any]]:
    """For each model and strategy the greatest load at which a share of problems keeps the deadline.

    `load` is the greatest of the listed loads up to which all do, None where not even the least does; `breaks_at` the
    least that does not, None where all do; `between` where the share is crossed, interpolated in the logarithm of load.
    """
    out = []
    for model, method in dict.fromkeys((p.model, p.method) for p in points):
        of = [p for p in points if (p.model, p.method) == (model, method)]
        own = sorted(((p.load, p) for p in of if p.load is not None and p.deadline_met is not None), key=lambda x: x[0])
        kept: tuple[float, Point] | None = None
        broken: tuple[float, Point] | None = None
        for load, p in own:
            if (p.deadline_met or 0.0) < share:
                broken = (load, p)
                break
            kept = (load, p)
        between = None
        if kept is not None and broken is not None:
            high, low = (float(p.deadline_met or 0.0) for _, p in (kept, broken))
            part = (high - share) / (high - low)
            between = math.exp(math.log(kept[0]) + part * (math.log(broken[0]) - math.log(kept[0])))
        out.append(
            {
                "model": model,
                "label": method,
                "share": share,
                "load": None if kept is None else kept[0],
                "breaks_at": None if broken is None else broken[0],
                "between": between,
                "cost_usd": None if kept is None else kept[1].cost_usd,
            }
        )
    return out


def cost_of_accuracy(points: Sequence[Point], accuracy: float) -> float | None:
    """USD a problem for which candidates reach an accuracy; between two of the staircase interpolated in log cost.

    Returns:
        None where none of them reaches it. The cheapest candidate's cost where that one reaches it already.
    """
    stairs = accuracy_at_cost(points)
    before: tuple[float, float] | None = None
    for step in stairs:
        here = (float(step["cost_usd"]), float(step["accuracy"]))
        if here[1] >= accuracy - 1e-12:
            if before is None or here[0] <= 0 or before[0] <= 0:
                return here[0]
            share = (accuracy - before[1]) / (here[1] - before[1])
            return math.exp(math.log(before[0]) + share * (math.log(here[0]) - math.log(before[0])))
        before = here
    return None


def break_even(point: Point, api: ApiPriceSpec) -> dict[str, Any] | None:
    """Tokens a day above which the candidate's own devices are cheaper than a provider; None without prices.

    Devices are paid for whether they are busy or not; an API is paid by the token. `tokens_a_day` are generated tokens
    at which both cost the same; `share_of_capacity` is what part of their capacity that is, with the interval of their
    throughput: above 1 own devices are never cheaper.
    """
    if point.usd_per_day is None or point.capacity_problems_per_s is None or not point.capacity_problems_per_s:
        return None
    cached = api.input if api.cached_input is None else api.cached_input
    fresh = point.prompt_tokens - point.cached_tokens
    usd = (fresh * api.input + point.cached_tokens * cached + point.tokens * api.output) / 1e6
    if usd <= 0:
        return None
    problems_a_day = point.usd_per_day / usd
    capacity = point.capacity_problems_per_s * DAY_S
    share = problems_a_day / capacity
    band = point.capacity_interval
    ends = None if band is None else (problems_a_day / (band["high"] * DAY_S), problems_a_day / (band["low"] * DAY_S))
    return {
        "model": point.model,
        "label": point.label,
        "api_usd_a_problem": usd,
        "own_usd_a_problem_at_full_use": point.usd_per_day / capacity,
        "usd_per_day": point.usd_per_day,
        "tokens_a_day": problems_a_day * point.tokens,
        "problems_a_day": problems_a_day,
        "share_of_capacity": share,
        "share_of_capacity_interval": ends and {"level": band["level"], "low": ends[0], "high": ends[1]},  # type: ignore[index]
        "cheaper": share < 1.0,
    }


def _cost(p: Point) -> float:
    return p.cost_usd if p.cost_usd is not None else math.inf
