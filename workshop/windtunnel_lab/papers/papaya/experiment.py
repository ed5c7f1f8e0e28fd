"""Time and uploads to a loss: synchronous rounds with over-selection next to buffered arrivals."""

from __future__ import annotations

from windtunnel.learning.results import LearningResult
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned, loss_on_the_way
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def _found(values: Values) -> LearningResult:
    clients, period = fixed("clients"), fixed("period")
    asked = {"local_steps": period, "active": round(clients / fixed("over")), "over_selection": fixed("over") - 1.0}
    section = {
        "task": fixed("task"),
        "workers": clients,
        "steps": 400,
        "batch": 16,
        "inner": "sgd",
        "split": {"dirichlet": fixed("dirichlet")},
        "speeds": {"lognormal": values["spread"], "with_data": True},
        "step_s": 1.0,
        "seeds": 2,
        "evaluate_every": 2,
        "algorithms": [{"fedavg-sync": asked}, {"papaya": {"local_steps": period, "buffer": fixed("buffer")}}],
    }
    return learned({**section, "target": {"loss": loss_on_the_way(section, fixed("target"))}})


def time_ratio(values: Values) -> float:
    """Time to the target of synchronous rounds over that of buffered arrivals."""
    rounds, buffered = _found(values).algorithms
    if rounds.time_to_target_s is None or buffered.time_to_target_s is None:
        return float("nan")
    return rounds.time_to_target_s / buffered.time_to_target_s


def upload_ratio(values: Values) -> float:
    """Bytes to the target of synchronous rounds over those of buffered arrivals."""
    found = _found(values)
    sums = []
    for a in found.algorithms:
        goal = found.goal["loss"]
        own = [c for c in found.curves if c.algorithm == a.label]
        there = [c.bytes[(c.loss <= goal).argmax()] for c in own if (c.loss <= goal).any()]
        sums.append(float(sum(there)) / len(there) if len(there) == len(own) else float("nan"))
    return sums[0] / sums[1]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "time": time_ratio,
        "uploads": upload_ratio,
    }
