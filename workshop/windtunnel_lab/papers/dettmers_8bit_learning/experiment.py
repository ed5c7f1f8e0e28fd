"""Errors of 8-bit values, and the loss with them."""

from __future__ import annotations

import numpy as np

from windtunnel.learning.compressors import COMPRESSORS
from windtunnel.learning.randomness import Draws
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "dettmers-8bit-learning")
fixed = EXPERIMENT.fixed


def mean_error() -> float:
    """Mean relative error of normal values in the dynamic tree, per cent."""
    entries = fixed("entries")
    values = np.random.default_rng(1).standard_normal(entries)
    kind = COMPRESSORS.get("dynamic_tree8")
    wire = kind.build({name: knob.default for name, knob in kind.knobs.items()})
    found = wire.decoded(values[None], ((entries,),), Draws(1), np.array([0]), 0)[0]
    return float(100 * np.mean(np.abs(found - values) / np.abs(values)))


def loss_over_data_parallel(values: Values) -> float:
    """Loss of 8-bit gradients over that of data parallelism."""
    return loss_ratio(proxy(EXPERIMENT.setting, values, ["dettmers-8bit", "data_parallel"]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "error": lambda v: mean_error(),
        "loss": loss_over_data_parallel,
    }
