"""A small MLP on the handwritten digits that come with scikit-learn: 1,797 images of 8 × 8, ten classes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, Problem
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED, DTYPE, Classifier, Samples
from windtunnel.learning.tasks.dense import DenseNet
from windtunnel.learning.tasks.splits import SPLITS, split
from windtunnel.techniques.knobs import Knob

_HELD_OUT = 360
"""A fifth of the images."""


@lru_cache(maxsize=2)
def digits(seed: int, dtype: str) -> Samples:
    """Pixels from 0 to 1, a fifth of the images held out.

    Raises:
        BadInput: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        rule = f"{error.name} is not installed; scikit-learn is an extra: pip install 'windtunnel[learn]'"
        raise BadInput(Problem(field="learning.task", value="mlp-digits", rule=rule)) from error
    images, labels = load_digits(return_X_y=True)
    order = Draws(seed).order("held out", 0, len(labels))
    x, y = (images[order] / 16.0).astype(dtype), labels[order].astype(np.int64)
    return Samples(x[_HELD_OUT:], y[_HELD_OUT:], x[:_HELD_OUT], np.eye(10)[y[:_HELD_OUT]])


def build(setting: TaskSetting, knobs: dict[str, Any]) -> Classifier:
    """One hidden layer of ReLU."""
    data = digits(knobs["data_seed"], knobs["dtype"])
    net = DenseNet((64, knobs["hidden"], 10), dtype=knobs["dtype"])
    return Classifier(setting, net, data, split(setting, data.labels, Draws(knobs["data_seed"])))


TASKS.add(
    "mlp-digits",
    TaskKind(
        id="mlp-digits",
        summary="a small MLP on scikit-learn's handwritten digits",
        build=build,
        knobs={"hidden": Knob(64, 1, 10_000, "hidden units"), "data_seed": DATA_SEED, "dtype": DTYPE},
        splits=SPLITS,
        packages=("scikit-learn",),
        source="Alpaydin and Kaynak 1998, Optical recognition of handwritten digits (UCI), by scikit-learn",
    ),
)
