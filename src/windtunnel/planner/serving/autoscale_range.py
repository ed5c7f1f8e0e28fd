"""How many instances of the chosen cut a traffic that rises and falls needs at its lowest and at its highest rate."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from windtunnel.planner.serving.candidate_table import Choice
from windtunnel.planner.serving.question import Question
from windtunnel.planner.serving.simulate_candidate import Runs


@dataclass(frozen=True, slots=True)
class Need:
    """Instances at one rate."""

    rate_per_s: float
    replicas: int | None
    """The fewest that keep the objective; None where all devices do not."""
    devices: int | None


def instances_needed(question: Question, choice: Choice, *, upper: bool) -> dict[str, Any]:
    """Needs at the trough and the peak of a diurnal or bursty traffic, as Poisson arrivals that last; else nothing.

    More instances are taken to serve no worse. Autoscaling between the two needs its own start-up time on top, which
    `serve` simulates (`serving.autoscale`).

    Args:
        question: what is asked.
        choice: the chosen deployment.
        upper: whether the objective has to hold at the upper end of the prediction's interval.
    """
    spec = question.serving.traffic
    if question.load != "rate_per_s" or spec.process not in ("diurnal", "bursty") or choice.answers is not None:
        return {}
    peak = choice.load * spec.peak_to_mean
    trough = choice.load * max(2.0 - spec.peak_to_mean, 0.0) if spec.process == "diurnal" else 0.0
    calm = spec.model_copy(update={"process": "poisson", "burstiness": 1.0, "duration_s": None} | _count(question))
    steady = replace(question, serving=question.serving.model_copy(update={"traffic": calm}))
    runs = Runs(question=steady, slo=question.goals.slo)
    most = min(question.wanted.limits.devices or 10**9, choice.kind.place.cluster.num_devices) // choice.kind.devices
    out = {}
    for name, rate in (("trough", trough), ("peak", peak)):
        found = 1 if rate <= 0 else _fewest(runs, replace(choice, load=rate), most, upper)
        out[name] = asdict(Need(rate, found, None if found is None else found * choice.kind.devices))
    return out


def _count(question: Question) -> dict[str, Any]:
    """Requests of a run, where the traffic says only how long it lasts."""
    spec = question.serving.traffic
    if spec.num_requests:
        return {}
    return {"num_requests": max(int((spec.rate_per_s or 1.0) * (spec.duration_s or 1.0)), 200)}


def _fewest(runs: Runs, choice: Choice, most: int, upper: bool) -> int | None:
    """By doubling, then by bisection."""

    def keeps(count: int) -> bool:
        trial = runs.run(replace(choice, replicas=count))
        if trial is None or trial.saturated or trial.rejected:
            return False
        return (trial.share_upper if upper else trial.share) >= runs.slo.percentile

    high = 1
    while not keeps(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
