"""Task graphs that arrive on three unlike elements: a plan made at arrival against ranks decided late, under noise."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel_lab.models.clusters import task_graphs
from windtunnel_lab.models.clusters.task_graphs import TaskGraph, heft, ranked
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=1)
def graph() -> TaskGraph:
    """The kind of job."""
    return TaskGraph(np.array(fixed("seconds"), float), {(a, b): float(s) for a, b, s in fixed("edges")})


def arrivals(seed: int, gap: float) -> list[float]:
    """When jobs come, a Poisson process."""
    times: list[float] = np.cumsum(np.random.default_rng(seed).exponential(gap, fixed("jobs"))).tolist()
    return times


@lru_cache(maxsize=4)
def weights(gap: float) -> Floats:
    """Of the learned rank."""
    own = fixed("train")
    return task_graphs.learned(graph(), [(arrivals(s, gap), own["noise"], s) for s in own["seeds"]])


@lru_cache(maxsize=64)
def latency(kind: str, gap: float, noise: float) -> float:
    """Mean latency of jobs, cases for testing."""
    found = []
    for seed in fixed("test")["seeds"]:
        times = arrivals(seed, gap)
        if kind == "heft":
            done = heft(graph(), times, noise=noise, seed=seed)
        else:
            own = weights(gap) if kind == "learned" else task_graphs.UPWARD
            done = ranked(graph(), times, own, noise=noise, seed=seed)
        found.append(done.latency_s.mean())
    return float(np.mean(found))


def degrades(values: Values) -> float:
    """How much more HEFT loses to noise."""
    noise, gap = fixed("noise"), values["gap"]
    lost = [latency(kind, gap, noise["high"]) / latency(kind, gap, noise["none"]) for kind in ("heft", "learned")]
    return lost[0] / lost[1]


def ratio(values: Values, over: str, under: str, noise: str) -> float:
    """Latency of one over that of another."""
    level = fixed("noise")[noise]
    return latency(over, values["gap"], level) / latency(under, values["gap"], level)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "heft/80": lambda _: float(heft(graph(), [0.0]).latency_s[0]),
        "noise/none": lambda v: ratio(v, "learned", "heft", "none"),
        "noise/high": lambda v: ratio(v, "heft", "learned", "high"),
        "noise/degrades": degrades,
        "learned": lambda v: ratio(v, "upward", "learned", "high"),
    }
