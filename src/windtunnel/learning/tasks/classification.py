"""Classification by a dense network, from samples held in memory: what several tasks share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.tasks.base import Score, Shapes, TaskSetting
from windtunnel.learning.tasks.dense import DenseNet, entropy, expected_loss, softmax_loss
from windtunnel.learning.tasks.splits import Shards
from windtunnel.techniques.knobs import Knob

DTYPE = Knob("float32", choices=("float32", "float64"), doc="type of parameters, gradients and states")
DATA_SEED = Knob(1, 0, 2**31, "seed of the data, which all seeds of a run share")


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples to learn from and samples held out."""

    inputs: Reals
    """Shape (samples, inputs)."""
    labels: Ints
    """Shape (samples,)."""
    held_inputs: Reals
    """Shape (held out, inputs)."""
    held_law: Floats
    """Probability of each label given the input, shape (held out, classes): where the law of the data is known,
    losses are expectations over it, and none is below its entropy. Otherwise 1 at the label."""
    law_known: bool = False


@dataclass(slots=True)
class Classifier:
    """Cross-entropy of a dense network."""

    setting: TaskSetting
    net: DenseNet
    data: Samples
    shards: Shards
    shapes: Shapes = ()
    floor: float | None = None
    metric: str = "accuracy"
    flipped: int = 0
    """The first workers, whose labels are turned round: the first class for the last (label flipping)."""
    _start: Reals = field(init=False)
    _held_net: DenseNet = field(init=False)
    """The same network with memory of its own, as large as the held-out samples."""

    def __post_init__(self) -> None:
        self.shapes = self.net.shapes
        self.floor = entropy(self.data.held_law) if self.data.law_known else None
        self._held_net = DenseNet(self.net.sizes, self.net.activation, self.net.kept.dtype)
        self._start = self.net.initial(self.setting.draws)

    @property
    def workers(self) -> int:
        """Workers of the task."""
        return self.setting.workers

    def initial(self) -> Reals:
        """See `Task.initial`."""
        return self._start.copy()

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """See `Task.gradients`."""
        net, batch = self.net, self.setting.batch
        drawn = self.shards.batches(self.setting.draws, workers, steps, batch)
        x = net.kept("inputs", len(params), batch, net.sizes[0])
        np.take(self.data.inputs, drawn, axis=0, out=x, mode="clip")
        logits = net.forward(params, x)
        labels = self.data.labels[drawn]
        if self.flipped:
            turned = workers < self.flipped
            labels[turned] = self.data.held_law.shape[1] - 1 - labels[turned]
        losses = softmax_loss(net.kept, logits, labels)
        net.backward(params, x, logits, out)
        return losses

    def evaluate(self, params: Reals) -> Score:
        """See `Task.evaluate`."""
        held = self.data.held_inputs[None]
        scores = [expected_loss(self._held_net.forward(row[None], held)[0], self.data.held_law) for row in params]
        loss, right = np.array(scores).reshape(-1, 2).T
        return Score(loss.copy(), right.copy())
