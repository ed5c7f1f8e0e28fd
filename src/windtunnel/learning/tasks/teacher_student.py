"""A student MLP learns what a teacher of the same form answers: the lowest loss is 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import Score, Shapes, TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED, DTYPE
from windtunnel.learning.tasks.dense import DenseNet
from windtunnel.learning.tasks.splits import SPLITS, Shards, split
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class TeacherStudent:
    """Half the squared distance between the student's and the teacher's answers, mean over samples."""

    setting: TaskSetting
    net: DenseNet
    inputs: Reals
    """Shape (samples + held out, inputs)."""
    answers: Reals
    """The teacher's, shape (samples + held out, outputs)."""
    held_out: int
    """Samples at the end that are only evaluated on."""
    shards: Shards
    shapes: Shapes = ()
    floor: float | None = 0.0
    metric: str = ""
    _held_net: DenseNet = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = self.net.shapes
        self._held_net = DenseNet(self.net.sizes, self.net.activation, self.net.kept.dtype)

    @property
    def workers(self) -> int:
        """Workers of the task."""
        return self.setting.workers

    def initial(self) -> Reals:
        """See `Task.initial`."""
        return self.net.initial(self.setting.draws)

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """See `Task.gradients`."""
        return self.gradients_on(params, *self.batch_of(workers, steps), out)

    def batch_of(self, workers: Ints, steps: Ints) -> tuple[Reals, Reals]:
        """Inputs and wanted answers of each row's batch, shape (rows, batch, …) each, overwritten by the next call."""
        net, batch = self.net, self.setting.batch
        drawn = self.shards.batches(self.setting.draws, workers, steps, batch)
        x = net.kept("inputs", len(workers), batch, net.sizes[0])
        wanted = net.kept("wanted", len(workers), batch, net.sizes[-1])
        np.take(self.inputs, drawn, axis=0, out=x, mode="clip")
        np.take(self.answers, drawn, axis=0, out=wanted, mode="clip")
        return x, wanted

    def gradients_on(self, params: Reals, x: Reals, wanted: Reals, out: Reals) -> Floats:
        """Gradients on given samples, which may be combinations of samples; `wanted` is overwritten.

        Args:
            params: Shape (rows, params).
            x: Shape (rows, batch, inputs).
            wanted: Shape (rows, batch, outputs).
            out: Gradients are written here, shape (rows, params).

        Returns:
            Loss of each row, shape (rows,).
        """
        net, batch = self.net, x.shape[1]
        off = net.forward(params, x)
        off -= wanted
        np.multiply(off, off, out=wanted)
        losses = 0.5 / batch * wanted.reshape(len(params), -1).sum(axis=1, dtype=np.float64)
        off *= off.dtype.type(1.0 / batch)
        net.backward(params, x, off, out)
        return np.asarray(losses)

    def evaluate(self, params: Reals) -> Score:
        """See `Task.evaluate`."""
        held, wanted = self.inputs[-self.held_out :][None], self.answers[-self.held_out :]
        loss = np.empty(len(params))
        for i, row in enumerate(params):
            off = (self._held_net.forward(row[None], held)[0] - wanted).astype(np.float64)
            loss[i] = 0.5 * (off * off).sum() / self.held_out
        return Score(loss, np.full(len(params), np.nan))


@lru_cache(maxsize=2)
def taught(inputs: int, teacher: int, outputs: int, total: int, seed: int, dtype: str) -> tuple[Reals, Reals]:
    """Normal inputs and a random teacher's answers to them, both with `total` rows."""
    draws = Draws(seed)
    x = np.empty((total, inputs), dtype)
    for at in range(0, total, 512):
        rows = np.arange(at, min(at + 512, total))
        x[rows] = draws.normals("inputs", rows, 0, inputs)
    net = DenseNet((inputs, teacher, outputs), dtype=dtype)
    return x, net.forward(net.initial(draws, "teacher")[None], x[None])[0]


def build(setting: TaskSetting, knobs: dict[str, Any]) -> TeacherStudent:
    """Splits divide samples by the teacher's largest answer."""
    hidden, teacher = knobs["hidden"], knobs["teacher"]
    if teacher > hidden:
        rule = f"must be at most the student's {hidden} hidden units, or the lowest loss is not known"
        raise BadInput(Problem(field="learning.task.teacher-student.teacher", value=teacher, rule=rule))
    held_out, seed = knobs["held_out"], knobs["data_seed"]
    x, y = taught(knobs["inputs"], teacher, knobs["outputs"], knobs["samples"] + held_out, seed, knobs["dtype"])
    net = DenseNet((knobs["inputs"], hidden, knobs["outputs"]), dtype=knobs["dtype"])
    shards = split(setting, y[:-held_out].argmax(axis=1), Draws(seed))
    return TeacherStudent(setting, net, x, y, held_out, shards)


TASKS.add(
    "teacher-student",
    TaskKind(
        id="teacher-student",
        summary="a student MLP that learns a teacher's answers; the lowest loss is 0",
        build=build,
        knobs={
            "inputs": Knob(32, 1, 100_000, "inputs"),
            "hidden": Knob(64, 1, 10_000, "hidden units of the student"),
            "teacher": Knob(16, 1, 10_000, "hidden units of the teacher"),
            "outputs": Knob(4, 1, 1000, "outputs"),
            "samples": Knob(16384, 1, 1_000_000, "samples to learn from"),
            "held_out": Knob(1024, 1, 1_000_000, "samples held out"),
            "data_seed": DATA_SEED,
            "dtype": DTYPE,
        },
        splits=SPLITS,
        source="Saad and Solla 1995, On-line learning in soft committee machines",
    ),
)
