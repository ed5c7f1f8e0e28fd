"""Softmax regression on Gaussian classes: convex, and the network holds the best classifier there is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED, DTYPE, Classifier, Samples
from windtunnel.learning.tasks.dense import DenseNet
from windtunnel.learning.tasks.splits import SPLITS, split
from windtunnel.techniques.knobs import Knob


@lru_cache(maxsize=2)
def gaussian_classes(
    inputs: int, classes: int, separation: float, samples: int, held_out: int, seed: int, dtype: str
) -> Samples:
    """Classes of equal weight, normal with covariance 1 around means of norm `separation` in random directions.

    The law of labels given x is a softmax of x·μ_c − ‖μ_c‖²/2, so the lowest loss is known.
    """
    draws = Draws(seed)
    means = draws.normals("class means", np.arange(classes), 0, inputs)
    means *= separation / np.linalg.norm(means, axis=1, keepdims=True)
    total = samples + held_out
    labels = draws.integers("labels", 0, 0, total, classes)[0]
    x = np.empty((total, inputs), dtype)
    for at in range(0, total, 512):  # in blocks that stay in the cache
        rows = np.arange(at, min(at + 512, total))
        x[rows] = means[labels[rows]] + draws.normals("inputs", rows, 0, inputs)
    held = x[samples:]
    law = posterior(held.astype(np.float64) @ means.T - 0.5 * (means * means).sum(axis=1))
    return Samples(x[:samples], labels[:samples], held, law, law_known=True)


def posterior(log_weights: Floats) -> Floats:
    """Rows scaled to sum to 1 after exponentiation, shape kept."""
    law = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def build(setting: TaskSetting, knobs: dict[str, Any]) -> Classifier:
    """A linear map from inputs to classes."""
    data = gaussian_classes(
        knobs["inputs"],
        knobs["classes"],
        float(knobs["separation"]),
        knobs["samples"],
        knobs["held_out"],
        knobs["data_seed"],
        knobs["dtype"],
    )
    net = DenseNet((knobs["inputs"], knobs["classes"]), dtype=knobs["dtype"])
    return Classifier(setting, net, data, split(setting, data.labels, Draws(knobs["data_seed"])))


TASKS.add(
    "logistic",
    TaskKind(
        id="logistic",
        summary="softmax regression on Gaussian classes; the lowest loss is known",
        build=build,
        knobs={
            "inputs": Knob(784, 1, 100_000, "inputs"),
            "classes": Knob(10, 2, 1000, "classes"),
            "separation": Knob(3.0, 0.0, 100.0, "distance of a class's mean from the origin, in standard deviations"),
            "samples": Knob(8192, 1, 1_000_000, "samples to learn from"),
            "held_out": Knob(1024, 1, 1_000_000, "samples held out"),
            "data_seed": DATA_SEED,
            "dtype": DTYPE,
        },
        splits=SPLITS,
    ),
)
