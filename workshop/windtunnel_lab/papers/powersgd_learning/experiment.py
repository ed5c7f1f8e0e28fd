"""Bytes of thin factors over the tensors of ResNet-18, and losses with and without feedback."""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import params_of
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "powersgd-learning")
fixed = EXPERIMENT.fixed


def resnet_shapes() -> tuple[tuple[int, ...], ...]:
    """Tensors of ResNet-18 for CIFAR-10 as matrices (outputs × the rest), and vectors of its normalisations."""
    widths, shapes = (64, 128, 256, 512), [(64, 27), (64,), (64,)]
    before = 64
    for width in widths:
        for block in range(2):
            first = before if block == 0 else width
            shapes += [(width, 9 * first), (width,), (width,), (width, 9 * width), (width,), (width,)]
            if block == 0 and first != width:
                shapes += [(width, first), (width,), (width,)]
        before = width
    return (*shapes, (10, 512), (10,))


def resnet_ratio() -> float:
    """Bytes of all tensors over those of their messages."""
    shapes = resnet_shapes()
    algorithm = ALGORITHMS.get("powersgd")
    knobs = {name: knob.default for name, knob in algorithm.knobs.items()} | {"rank": fixed("rank")}
    job = Job(workers=16, steps=1, shapes=shapes, inner=SGD(), lr=LearningRate(0.1), draws=Draws(1))
    sent = sum(m.nbytes(shapes) for m in algorithm.build(job, knobs).messages(0))
    return float(4.0 * params_of(shapes) / sent)


def ratio(values: Values, first: dict[str, Any], second: dict[str, Any] | None) -> float:
    """Loss with some knobs over that with others; None: of data parallelism."""
    rank = {"rank": fixed("rank")}
    other = "data_parallel" if second is None else {"powersgd": rank | second}
    return loss_ratio(proxy(EXPERIMENT.setting, values, [{"powersgd": rank | first}, other]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "resnet": lambda v: resnet_ratio(),
        "loss": lambda v: ratio(v, {}, None),
        "feedback": lambda v: ratio(v, {"error_feedback": False}, {}),
    }
