"""The best site for data-intensive jobs: predicted completion times against the least load."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel_lab.models.clusters.regression import ridge, trees
from windtunnel_lab.models.clusters.site_completion import LOAD, completion_s, generated, telemetry
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "network-aware-supervised-sched")
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=16)
def data(name: str, sites: int, noise: float) -> tuple[Floats, Floats]:
    """(features, seconds) of every job at every site, shapes (jobs, sites, features) and (jobs, sites)."""
    own = fixed(name)
    rng = np.random.default_rng(own["seed"])
    x, y = [], []
    for _ in range(own["jobs"]):
        state, job = generated(rng, sites)
        x.append([telemetry(state, job, s, rng, noise) for s in range(sites)])
        y.append([completion_s(state, job, s) for s in range(sites)])
    return np.array(x), np.array(y)


@lru_cache(maxsize=32)
def chosen(kind: str, sites: int, noise: float) -> Ints:
    """The site of each job for testing: by `trees`, by `linear`, or by least `load`."""
    tx, _ = data("test", sites, noise)
    if kind == "load":
        return np.asarray(tx[:, :, LOAD].argmin(1))
    x, y = data("train", sites, noise)
    flat, target = x.reshape(-1, x.shape[2]), np.log(y.ravel())
    model = trees(flat, target) if kind == "trees" else ridge(flat, target)
    return np.asarray(model.predict(tx.reshape(-1, x.shape[2])).reshape(tx.shape[:2]).argmin(1))


def accuracy(values: Values, kind: str) -> float:
    """Share of jobs that go to their best site, in per cent."""
    _, y = data("test", values["sites"], values["noise"])
    return 100.0 * float((chosen(kind, values["sites"], values["noise"]) == y.argmin(1)).mean())


def mean_s(values: Values, kind: str) -> float:
    """Mean seconds of jobs where they go; `best`: where they should."""
    _, y = data("test", values["sites"], values["noise"])
    at = y.argmin(1) if kind == "best" else chosen(kind, values["sites"], values["noise"])
    return float(y[np.arange(len(y)), at].mean())


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "accuracy/gain": lambda v: accuracy(v, "trees") - accuracy(v, "load"),
        "accuracy/linear": lambda v: accuracy(v, "linear") - accuracy(v, "load"),
        "time": lambda v: mean_s(v, "load") / mean_s(v, "trees"),
        "regret": lambda v: mean_s(v, "trees") / mean_s(v, "best"),
    }
