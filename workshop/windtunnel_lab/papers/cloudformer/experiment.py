"""Slow-down of guests that share a host, from what the host can see of them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel_lab.models.clusters.interference import Host, drawn, means, moments, performance
from windtunnel_lab.models.clusters.regression import mean_error, ridge, trees
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=8)
def data(name: str, memory: float) -> tuple[Floats, Floats, Floats]:
    """(means, moments, performance) of every guest of some hosts."""
    own, (low, high) = fixed(name), fixed("guests")
    rng = np.random.default_rng(own["seed"])
    plain, rich, done = [], [], []
    for _ in range(own["hosts"]):
        guests = [drawn(str(rng.choice(own["kinds"])), rng) for _ in range(int(rng.integers(low, high + 1)))]
        found, series = performance(Host(memory_gb_per_s=memory), guests, fixed("seconds"), rng)
        plain += [means(s) for s in series]
        rich += [moments(s) for s in series]
        done += found.tolist()
    return np.array(plain), np.array(rich), np.array(done)


@lru_cache(maxsize=32)
def error(kind: str, memory: float) -> float:
    """Mean absolute error on the hosts for testing."""
    (plain, rich, y), (tp, tr, ty) = data("train", memory), data("test", memory)
    if kind == "mean":
        return mean_error(np.full(len(ty), y.mean()), ty)
    if kind == "linear":
        return mean_error(ridge(plain, y).predict(tp), ty)
    model = trees(rich, y) if kind == "series" else trees(plain, y)
    return mean_error(model.predict(tr if kind == "series" else tp), ty)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""

    def against(other: str) -> Measure:
        return lambda v: error("series", v["memory_gb_per_s"]) / error(other, v["memory_gb_per_s"])

    return {"error/means": against("linear"), "error/blind": against("mean"), "error/series": against("still")}
