"""Steps by speed: staleness next to FedBuff, waiting next to rounds."""

from __future__ import annotations

from windtunnel.learning.records import AlgorithmFigures
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def _found(id: str, values: Values) -> AlgorithmFigures:
    section = {
        "task": fixed("task"),
        "workers": fixed("clients"),
        "steps": 400,
        "batch": 16,
        "inner": "sgd",
        "split": {"dirichlet": fixed("dirichlet")},
        "speeds": {"lognormal": values["spread"]},
        "step_s": 1.0,
        "seeds": 2,
        "algorithms": [id],
    }
    return learned(section).last


def staleness_ratio(values: Values) -> float:
    """Mean staleness of FedBuff over that of FedCompass."""
    return float(_found("fedbuff", values).staleness["mean"] / _found("fedcompass", values).staleness["mean"])


def idle_ratio(values: Values) -> float:
    """Share of the time that clients do not compute, of synchronous rounds over FedCompass."""
    rounds, own = (1.0 - (_found(id, values).utilisation or 0.0) for id in ("fedavg-sync", "fedcompass"))
    return rounds / own


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "staleness": staleness_ratio,
        "idle": idle_ratio,
    }
