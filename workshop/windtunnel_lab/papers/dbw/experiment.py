"""Time to a loss with as many gradients a step as give most progress a second, and with a number that stays."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.runs.step_waits.base import ROUNDS
from windtunnel.runs.step_waits.worker_times import worker_times
from windtunnel.specs.run import StragglersSpec
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
_SEED = 1
_MOST = 100_000


@lru_cache(maxsize=16)
def awaited_s(law: str) -> tuple[float, ...]:
    """Mean time until 1, 2, … gradients are there."""
    spec = StragglersSpec(**fixed("laws")[law])
    times = np.sort(worker_times(spec, fixed("workers"), 10 * ROUNDS, _SEED), axis=1)
    return tuple(times.mean(axis=0).tolist())


def noise(values: Values) -> float:
    """Loss that one gradient's noise adds in a step: with all gradients it leaves `floor`."""
    return float(values["floor"] * fixed("contraction") * fixed("workers"))


def after(loss: float, k: Floats, values: Values) -> Floats:
    """Mean loss after a step with k gradients."""
    return np.asarray((1.0 - fixed("contraction")) * loss + noise(values) / k)


def dynamic(law: str, values: Values) -> tuple[float, list[int]]:
    """(time to the target, gradients awaited in each step), the number chosen by gain a second."""
    seconds, numbers = np.array(awaited_s(law)), np.arange(1, fixed("workers") + 1, dtype=float)
    loss, spent, chosen = 1.0, 0.0, list[int]()
    while loss > values["target"] * values["floor"] and len(chosen) < _MOST:
        rates = (loss - after(loss, numbers, values)) / seconds
        best = len(rates) - 1 - int(np.argmax(rates[::-1] >= rates.max() - 1e-12 * abs(rates.max())))
        loss, spent = float(after(loss, numbers, values)[best]), spent + float(seconds[best])
        chosen.append(best + 1)
    return spent, chosen


def static(law: str, values: Values) -> float:
    """Time to the target with the best number that stays."""
    q, target, best = fixed("contraction"), values["target"] * values["floor"], math.inf
    for k, each_s in enumerate(awaited_s(law), start=1):
        left = noise(values) / (k * q)  # the loss that k gradients a step end at
        if left < target:
            steps = math.ceil(math.log((target - left) / (1.0 - left)) / math.log(1.0 - q))
            best = min(best, steps * each_s)
    return best


def speed_ups(values: Values) -> list[float]:
    """Static over dynamic, by law."""
    return [static(law, values) / dynamic(law, values)[0] for law in fixed("laws")]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "speed-up": lambda v: max(speed_ups(v)),
        "deterministic": lambda v: float(fixed("workers") - min(dynamic("equal", v)[1])),
        "never-slower": lambda v: min(speed_ups(v)),
    }
