"""Variance, bytes and loss of ternary gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.learning.compressors import COMPRESSORS
from windtunnel.learning.randomness import Draws
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "terngrad-learning")
fixed = EXPERIMENT.fixed


def _wire(**knobs: Any) -> Any:
    kind = COMPRESSORS.get("ternary")
    return kind.build({name: knob.default for name, knob in kind.knobs.items()} | knobs)


def variance_over_law() -> float:
    """Variance of one worker's ternary gradient over |g|max·‖g‖₁ − ‖g‖²."""
    entries, draws = fixed("entries"), fixed("draws")
    gradient = np.random.default_rng(1).standard_normal(entries)
    wire = _wire(clip=0.0)
    error = [
        ((wire.decoded(gradient[None], ((entries,),), Draws(1), np.array([0]), at) - gradient) ** 2).sum()
        for at in range(draws)
    ]
    law = np.abs(gradient).max() * np.abs(gradient).sum() - (gradient**2).sum()
    return float(np.mean(error) / law)


def byte_ratio() -> float:
    """Bytes of values in 32 bits over those of ternary ones."""
    shapes = ((1_000_000,),)
    return float(4e6 / _wire().nbytes(shapes))


def loss_over_data_parallel(values: Values) -> float:
    """Loss of ternary gradients over that of data parallelism."""
    return loss_ratio(proxy(EXPERIMENT.setting, values, ["terngrad", "data_parallel"]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "variance": lambda v: variance_over_law(),
        "bytes": lambda v: byte_ratio(),
        "loss": loss_over_data_parallel,
    }
