"""Decoupled momentum: its fully replicated form, its bytes and its loss."""

from __future__ import annotations

import numpy as np

from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned, loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


PLAIN = {"sign": False, "lr_in_momentum": False, "decay": 0.0}


def difference_to_exact_means() -> float:
    """Largest relative difference of losses of the full form without momentum to those of data parallelism."""
    own = {"detonation": {"replicator": "full", **PLAIN}}
    section = proxy(EXPERIMENT.setting, {}, [own, "data_parallel"], inner="sgd", lr=0.1, steps=200, seeds=1)
    mine, other = learned(section).curves
    return float(np.max(np.abs(mine.loss - other.loss) / np.abs(other.loss)))


def byte_share() -> float:
    """Bytes of an encoding with 1 of 32 components over those of all values in 32 bits."""
    chunk = fixed("chunk")
    target = Target(step_s=1.0, layers=stated_layers(1e7, 1))
    nbytes = []
    for id, knobs in (("detonation", {"chunk": chunk, "k": chunk // 32}), ("data_parallel", {})):
        (message,) = messages_on_target(id, knobs, target, 8, 1)(0)
        nbytes.append(message.nbytes(target.shapes))
    return nbytes[0] / nbytes[1]


def loss_over_full(values: Values) -> float:
    """Loss with the largest components of momentum over that with all of it."""
    knobs = {"chunk": fixed("chunk"), "k": values["topk"]}
    return loss_ratio(proxy(EXPERIMENT.setting, {}, [{"detonation": knobs}, {"detonation": {"replicator": "full"}}]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "full": lambda v: difference_to_exact_means(),
        "bytes": lambda v: byte_share(),
        "loss": loss_over_full,
    }
