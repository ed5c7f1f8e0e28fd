"""Classes that are mixtures of Gaussians, in several mixtures: the toy on which asynchronous local SGD was studied.

Each mixture has components of every class at places of its own; a split divides mixtures over workers, so that shards
differ as the texts of different sources do. The law of labels given a point is known, and so is the lowest loss.

Source: Liu et al. 2024, Asynchronous local-SGD training for language modeling (arXiv 2401.09135), section 4.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED, DTYPE, Classifier, Samples
from windtunnel.learning.tasks.dense import DenseNet
from windtunnel.learning.tasks.logistic import posterior
from windtunnel.learning.tasks.splits import SPLITS, split
from windtunnel.techniques.knobs import Knob


@lru_cache(maxsize=2)
def mixtures_of_mixtures(
    inputs: int, classes: int, mixtures: int, components: int, spread: float, samples: int, held_out: int, seed: int
) -> tuple[Samples, Ints]:
    """Samples in float64, and the mixture that each comes from.

    Components are normal with covariance 1; their means are normal with standard deviation `spread` per entry.
    """
    draws = Draws(seed)
    kinds = mixtures * classes * components
    means = spread * draws.normals("component means", np.arange(kinds), 0, inputs)
    total = samples + held_out
    drawn = draws.integers("components", 0, 0, total, kinds)[0]
    x = means[drawn]
    for at in range(0, total, 512):  # in blocks that stay in the cache
        rows = np.arange(at, min(at + 512, total))
        x[rows] += draws.normals("inputs", rows, 0, inputs)
    mixture, label = drawn // (classes * components), drawn // components % classes
    held = x[samples:]
    by_component = posterior(held @ means.T - 0.5 * (means * means).sum(axis=1))
    law = by_component.reshape(held_out, mixtures, classes, components).sum(axis=(1, 3))
    return Samples(x[:samples], label[:samples], held, law, law_known=True), mixture[:samples]


def build(setting: TaskSetting, knobs: dict[str, Any]) -> Classifier:
    """An MLP with one hidden layer; splits divide mixtures."""
    sizes = [knobs[name] for name in ("inputs", "classes", "mixtures", "components")]
    data, mixture = mixtures_of_mixtures(
        *sizes, float(knobs["spread"]), knobs["samples"], knobs["held_out"], knobs["data_seed"]
    )
    dtype = knobs["dtype"]
    data = Samples(data.inputs.astype(dtype), data.labels, data.held_inputs.astype(dtype), data.held_law, True)
    net = DenseNet((knobs["inputs"], knobs["hidden"], knobs["classes"]), dtype=dtype)
    return Classifier(setting, net, data, split(setting, mixture, Draws(knobs["data_seed"])))


TASKS.add(
    "gaussian-mixture",
    TaskKind(
        id="gaussian-mixture",
        summary="an MLP on classes that are mixtures of Gaussians; splits divide mixtures, the lowest loss is known",
        build=build,
        knobs={
            "inputs": Knob(16, 1, 10_000, "inputs"),
            "hidden": Knob(64, 1, 10_000, "hidden units"),
            "classes": Knob(4, 2, 1000, "classes"),
            "mixtures": Knob(4, 1, 1000, "mixtures, which splits divide over workers"),
            "components": Knob(4, 1, 1000, "components of a class in a mixture"),
            "spread": Knob(1.0, 0.0, 100.0, "standard deviation of components' means, per entry"),
            "samples": Knob(16384, 1, 1_000_000, "samples to learn from"),
            "held_out": Knob(1024, 1, 1_000_000, "samples held out"),
            "data_seed": DATA_SEED,
            "dtype": DTYPE,
        },
        splits=SPLITS,
        source="Liu et al. 2024 (arXiv 2401.09135), section 4",
    ),
)
