"""Scores of processors that a model has not seen, by boosted trees and by a linear model."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel_lab.models.clusters.cpu_score import Benchmark, scores, sheets
from windtunnel_lab.models.clusters.regression import mean_error, ridge, trees
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=8)
def ratios(rows: int) -> list[float]:
    """Error of trees over that of ridge, by benchmark."""
    rng, other = np.random.default_rng(fixed("train")["seed"]), np.random.default_rng(fixed("test")["seed"])
    x, tx = sheets(rng, rows), sheets(other, fixed("test")["count"])
    out = []
    for values in fixed("benchmarks").values():
        y = np.log(scores(x, Benchmark(*values))) + fixed("noise") * rng.standard_normal(len(x))
        truth = np.log(scores(tx, Benchmark(*values)))
        out.append(mean_error(trees(x, y).predict(tx), truth) / mean_error(ridge(x, y).predict(tx), truth))
    return out


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "linear/mean": lambda v: float(np.mean(ratios(v["rows"]))),
        "linear/worst": lambda v: max(ratios(v["rows"])),
    }
