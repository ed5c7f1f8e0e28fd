"""A deep autoencoder of points near a curved surface of few dimensions: what closed-form training is compared on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import Score, Shapes, TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED, DTYPE
from windtunnel.learning.tasks.dense import DenseNet
from windtunnel.learning.tasks.splits import SPLITS, Shards, split
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class Autoencoder:
    """Half the squared distance of a point to what the network makes of it, mean over samples."""

    setting: TaskSetting
    net: DenseNet
    points: Reals
    """Shape (samples + held out, inputs)."""
    held_out: int
    """Samples at the end that are only evaluated on."""
    shards: Shards
    shapes: Shapes = ()
    floor: float | None = None
    metric: str = ""
    _held_net: DenseNet = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = self.net.shapes
        self._held_net = DenseNet(self.net.sizes, self.net.activation, self.net.kept.dtype)

    @property
    def workers(self) -> int:
        """Workers of the task."""
        return self.setting.workers

    def points_of(self, worker: int) -> Reals:
        """Samples of one worker, shape (samples, inputs): what closed-form training reads."""
        return self.points[self.shards.of(worker)]

    def initial(self) -> Reals:
        """See `Task.initial`."""
        return self.net.initial(self.setting.draws)

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """See `Task.gradients`."""
        net, batch = self.net, self.setting.batch
        drawn = self.shards.batches(self.setting.draws, workers, steps, batch)
        x = net.kept("inputs", len(params), batch, net.sizes[0])
        np.take(self.points, drawn, axis=0, out=x, mode="clip")
        off = net.forward(params, x)
        off -= x
        squares = np.multiply(off, off, out=net.kept("squares", *off.shape))
        losses = 0.5 / batch * squares.reshape(len(params), -1).sum(axis=1, dtype=np.float64)
        off *= off.dtype.type(1.0 / batch)
        net.backward(params, x, off, out)
        return np.asarray(losses)

    def evaluate(self, params: Reals) -> Score:
        """See `Task.evaluate`."""
        held = self.points[-self.held_out :]
        loss = np.empty(len(params))
        for i, row in enumerate(params):
            off = (self._held_net.forward(row[None], held[None])[0] - held).astype(np.float64)
            loss[i] = 0.5 * (off * off).sum() / self.held_out
        return Score(loss, np.full(len(params), np.nan))


@lru_cache(maxsize=2)
def surface(inputs: int, dimensions: int, noise: float, total: int, seed: int) -> tuple[Floats, Ints]:
    """Points x = tanh(z·A)·B + noise with normal z, and the region of each: which octant of three entries of z."""
    draws = Draws(seed)
    z = draws.normals("latent", np.arange(total), 0, dimensions)
    a = draws.normals("bend", np.arange(dimensions), 0, inputs)
    b = draws.normals("place", np.arange(inputs), 0, inputs) / np.sqrt(inputs)
    x = np.tanh(z @ a / np.sqrt(dimensions)) @ b + noise * draws.normals("noise", np.arange(total), 0, inputs)
    region = ((z[:, :3] > 0) * 2 ** np.arange(min(3, dimensions))).sum(axis=1)
    return x, region


def build(setting: TaskSetting, knobs: dict[str, Any]) -> Autoencoder:
    """Inputs, the code, one wider layer, inputs again."""
    held_out, seed = knobs["held_out"], knobs["data_seed"]
    x, region = surface(knobs["inputs"], knobs["dimensions"], float(knobs["noise"]), knobs["samples"] + held_out, seed)
    sizes = (knobs["inputs"], knobs["code"], knobs["hidden"], knobs["inputs"])
    net = DenseNet(sizes, "tanh", knobs["dtype"])
    shards = split(setting, region[:-held_out], Draws(seed))
    return Autoencoder(setting, net, x.astype(knobs["dtype"]), held_out, shards)


TASKS.add(
    "autoencoder",
    TaskKind(
        id="autoencoder",
        summary="a deep autoencoder of points near a curved surface; `daef` trains it in closed form",
        build=build,
        knobs={
            "inputs": Knob(32, 3, 10_000, "inputs"),
            "dimensions": Knob(4, 3, 1000, "dimensions of the surface"),
            "code": Knob(8, 1, 10_000, "units of the narrowest layer"),
            "hidden": Knob(24, 1, 10_000, "units of the layer behind it"),
            "noise": Knob(0.05, 0.0, 100.0, "standard deviation of points around the surface, per entry"),
            "samples": Knob(4096, 1, 1_000_000, "samples to learn from"),
            "held_out": Knob(1024, 1, 1_000_000, "samples held out"),
            "data_seed": DATA_SEED,
            "dtype": DTYPE,
        },
        splits=SPLITS,
    ),
)
