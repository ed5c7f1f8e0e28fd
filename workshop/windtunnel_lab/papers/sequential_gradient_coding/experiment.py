"""Rounds of 256 unequal workers under four rules for whom they wait."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from windtunnel.runs.step_waits import Waited, step_waits
from windtunnel.specs.run import StragglersSpec
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "sequential-gradient-coding")
fixed = EXPERIMENT.fixed
_SEED = 1


@lru_cache(maxsize=64)
def waited(scheme: str, patience: float) -> Waited:
    """Rounds under one rule."""
    wait: Any = scheme if scheme == "all" else {scheme: {**fixed("schemes")[scheme], "patience": patience}}
    workers = fixed("workers")
    share = fixed("batch_s_over_median") / workers
    spec = StragglersSpec(wait=wait, workers=workers, load_share=share, **fixed("law"))
    return step_waits(spec, workers, _SEED)


def seconds(scheme: str, values: Values) -> float:
    """Time of all jobs over that of a round of typical workers."""
    found = waited(scheme, values["patience"])
    return float((fixed("jobs") + found.delay) * found.factor)


def saved(against: str, values: Values) -> float:
    """Per cent of the time that M-SGC saves."""
    return 100.0 * (1.0 - seconds("m-sgc", values) / seconds(against, values))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "gradient-coding": lambda v: saved("gradient-coding", v),
        "gradient-coding/estimate": lambda v: saved("gradient-coding", v),
        "uncoded/estimate": lambda v: saved("all", v),
        "selective-repeat": lambda v: seconds("m-sgc", v) / seconds("sr-sgc", v),
        "load": lambda v: waited("m-sgc", v["patience"]).load / waited("gradient-coding", v["patience"]).load,
    }
