"""Sums of sketches, and the loss with them."""

from __future__ import annotations

import numpy as np

from windtunnel.learning.compressors import COMPRESSORS
from windtunnel.learning.randomness import Draws
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "tagc-learning")


def largest_difference() -> float:
    """Largest relative difference of the decoded sum of two workers' messages to the sum of what each decodes to."""
    entries = 4096
    values = np.random.default_rng(1).standard_normal((2, entries)) ** 5
    kind = COMPRESSORS.get("sketch")
    wire = kind.build({name: knob.default for name, knob in kind.knobs.items()})
    shapes, workers = ((entries,),), np.arange(2)
    apart = wire.decoded(values, shapes, Draws(1), workers, 0).sum(axis=0)
    kept = [row.copy() for row in values]
    for row in kept:
        row[np.argsort(np.abs(row))[: entries - int(kind.knobs["fraction"].default * entries)]] = 0.0
    return float(np.max(np.abs(apart - np.sum(kept, axis=0))) / np.max(np.abs(apart)))


def loss_over_data_parallel(values: Values) -> float:
    """Loss of sketched gradients over that of data parallelism."""
    return loss_ratio(proxy(EXPERIMENT.setting, values, ["tagc", "data_parallel"]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "sum": lambda v: largest_difference(),
        "loss": loss_over_data_parallel,
    }
