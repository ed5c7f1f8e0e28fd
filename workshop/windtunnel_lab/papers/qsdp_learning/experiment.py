"""Weights on a lattice that is shifted at random, and the loss with them."""

from __future__ import annotations

import numpy as np

from windtunnel.learning.compressors import COMPRESSORS
from windtunnel.learning.randomness import Draws
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "qsdp-learning")
fixed = EXPERIMENT.fixed


def standard_errors_off() -> float:
    """Root of the mean square distance of means of quantised weights to the weights, in standard errors."""
    draws, entries = fixed("draws"), 512
    weights = np.random.default_rng(1).standard_normal(entries)
    kind = COMPRESSORS.get("lattice_shift")
    wire = kind.build({name: knob.default for name, knob in kind.knobs.items()})
    found = np.array(
        [wire.decoded(weights[None], ((entries,),), Draws(1), np.array([0]), at)[0] for at in range(draws)]
    )
    error = found.std(axis=0) / np.sqrt(draws)
    return float(np.sqrt(np.mean(((found.mean(axis=0) - weights) / error) ** 2)))


def loss_over_data_parallel(values: Values) -> float:
    """Loss of quantised weights and gradients over that of data parallelism."""
    return loss_ratio(proxy(EXPERIMENT.setting, values, ["qsdp", "data_parallel"]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "unbiased": lambda v: standard_errors_off(),
        "loss": loss_over_data_parallel,
    }
