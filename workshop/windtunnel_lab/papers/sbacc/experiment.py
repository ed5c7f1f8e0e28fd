"""Errors of decoding from some of the shares, computed on random blocks; time of waiting for them."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.runs.step_waits import step_waits
from windtunnel.runs.step_waits.berrut import decode, encode
from windtunnel.specs.run import StragglersSpec
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def function(blocks: Floats) -> Floats:
    """What the workers compute."""
    return np.asarray(np.tanh(blocks @ blocks.transpose(0, 2, 1) / fixed("side")))


@lru_cache(maxsize=64)
def error(late: int, seed: int) -> float:
    """Mean over sets of returns: distance to the exact results over their length."""
    random = np.random.default_rng(seed)
    shares, side = fixed("shares"), fixed("side")
    data = random.standard_normal((fixed("blocks"), side, side))
    exact, computed = function(data), function(encode(data, shares))
    errors = []
    for _ in range(fixed("sets") if late else 1):
        returned = np.sort(random.permutation(shares)[: shares - late])
        found = decode(computed[returned], returned, shares, len(data))
        errors.append(float(np.linalg.norm(found - exact) / np.linalg.norm(exact)))
    return float(np.mean(errors))


def falls(values: Values) -> float:
    """Smallest ratio between neighbouring numbers of stragglers."""
    found = [error(late, values["seed"]) for late in fixed("stragglers")]
    return min(more / fewer for fewer, more in pairwise(found))


def time(values: Values) -> float:
    """Waiting for all but eight over waiting for all, loads alike."""
    own = {"workers": fixed("shares"), **fixed("law")}
    late = {"blocks": fixed("blocks"), "late": 8}
    some = step_waits(StragglersSpec(wait={"berrut": late}, **own), 0, 1)
    every = step_waits(StragglersSpec(wait={"berrut": late | {"late": 0}}, **own), 0, 1)
    return some.factor / every.factor


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "falls": falls,
        "bounded": lambda v: error(max(fixed("stragglers")), v["seed"]),
        "all-return": lambda v: error(0, v["seed"]),
        "time": time,
    }
