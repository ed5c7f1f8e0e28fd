"""A module of PyTorch: the user's own from a Python file, or a small transformer on `markov-lm`'s language.

`way: loop` computes each row by itself, so that its bits depend on no other; `stacked` computes all rows in one
vectorised pass, which is faster for small modules and equal up to rounding. One thread either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks._user_module import FIELD, ModuleAndData, from_file, on_markov_text, require_torch
from windtunnel.learning.tasks.base import Score, Shapes, TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED
from windtunnel.learning.tasks.splits import SPLITS, Shards, split
from windtunnel.techniques.knobs import Knob

_HELD_AT_ONCE = 256
"""Held-out samples of one forward."""


@dataclass(slots=True)
class TorchTask:
    """Losses and gradients of a module; parameters are float32."""

    setting: TaskSetting
    what: ModuleAndData
    shards: Shards
    stacked: bool
    shapes: Shapes = ()
    floor: float | None = None
    metric: str = ""
    _torch: Any = field(init=False)
    _names: tuple[str, ...] = ()
    _random: bool = False
    """Whether forwards draw random numbers (dropout)."""
    _start: Reals = field(init=False)

    def __post_init__(self) -> None:
        self._torch = torch = require_torch()
        module = self.what.module
        found = dict(module.named_parameters())
        _refuse(torch, module, found, self.stacked)
        self._names = tuple(found)
        self.shapes = tuple(tuple(p.shape) for p in found.values())
        self._start = torch.cat([p.detach().reshape(-1) for p in found.values()]).numpy().astype(np.float32)
        self._random = any(_drops(torch, part) for part in module.modules())
        self.metric = "" if self.what.held_targets.is_floating_point() else "accuracy"

    @property
    def workers(self) -> int:
        """Workers of the task."""
        return self.setting.workers

    def initial(self) -> Reals:
        """See `Task.initial`: as the module was made."""
        return self._start.copy()

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """See `Task.gradients`; losses and gradients of rows alone (`loop`), or of all at once (`stacked`)."""
        drawn = self.shards.batches(self.setting.draws, workers, steps, self.setting.batch)
        torch = self._torch
        if self.stacked:
            rows = torch.from_numpy(np.ascontiguousarray(params)).requires_grad_()
            at = torch.from_numpy(drawn)
            losses = torch.func.vmap(self._loss)(rows, self.what.inputs[at], self.what.targets[at])
            losses.sum().backward()
            out[:] = rows.grad.numpy()
            return np.asarray(losses.detach().numpy(), np.float64)
        told = np.empty(len(params))
        for i, (worker, step) in enumerate(zip(workers, steps, strict=True)):
            row = torch.from_numpy(params[i].copy()).requires_grad_()
            at = torch.from_numpy(drawn[i])
            with torch.random.fork_rng(devices=[], enabled=self._random):
                if self._random:
                    seed = self.setting.draws.integers("dropout", [worker], [step], 1, 2**31)[0, 0]
                    torch.manual_seed(int(seed))
                loss = self._loss(row, self.what.inputs[at], self.what.targets[at])
                loss.backward()
            out[i] = row.grad.numpy()
            told[i] = float(loss.detach())
        return told

    def evaluate(self, params: Reals) -> Score:
        """See `Task.evaluate`; dropout is off."""
        torch, module = self._torch, self.what.module
        was_training = module.training
        module.eval()
        loss, right = np.zeros(len(params)), np.full(len(params), np.nan)
        with torch.no_grad():
            for i, row in enumerate(params):
                told = [self._scored(torch.from_numpy(row.copy()), x, y) for x, y in self._held()]
                weights, losses, hits = np.array(told).T
                loss[i] = np.average(losses, weights=weights)
                right[i] = np.average(hits, weights=weights)
        module.train(was_training)
        return Score(loss, right)

    def _held(self) -> Iterator[tuple[Any, Any]]:
        for at in range(0, len(self.what.held_inputs), _HELD_AT_ONCE):
            yield self.what.held_inputs[at : at + _HELD_AT_ONCE], self.what.held_targets[at : at + _HELD_AT_ONCE]

    def _scored(self, row: Any, x: Any, y: Any) -> tuple[int, float, float]:
        """(samples, loss, share that is right) of some held-out samples."""
        outputs = self._outputs(row, x)
        right = float("nan")
        if self.metric and outputs.ndim == y.ndim + 1:
            right = float((outputs.argmax(dim=-1) == y).float().mean())
        return len(x), float(self.what.loss(outputs, y)), right

    def _loss(self, row: Any, x: Any, y: Any) -> Any:
        return self.what.loss(self._outputs(row, x), y)

    def _outputs(self, row: Any, x: Any) -> Any:
        """Outputs of the module with the parameters of one flat row."""
        parts, at = {}, 0
        for name, shape in zip(self._names, self.shapes, strict=True):
            size = prod(shape)
            parts[name] = row[at : at + size].reshape(shape)
            at += size
        return self._torch.func.functional_call(self.what.module, parts, (x,))


def _drops(torch: Any, part: Any) -> bool:
    return isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0.0


def _refuse(torch: Any, module: Any, params: dict[str, Any], stacked: bool) -> None:
    """Refuse modules that workers cannot have copies of as rows of parameters."""
    field, rule = f"{FIELD}.file", ""
    if not params:
        rule = "its module has no parameters"
    elif any(p.dtype != torch.float32 for p in params.values()):
        rule = "has parameters that are not float32"
    elif any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in module.modules()):
        rule = "has batch normalisation, whose running statistics are no parameters; allowed: layer or group norm"
    elif stacked and any(_drops(torch, part) for part in module.modules()):
        field, rule = f"{FIELD}.way", "draws dropout for all rows at once; allowed with dropout: loop"
    if rule:
        raise BadInput(Problem(field=field, value=type(module).__name__, rule=rule))


def build(setting: TaskSetting, knobs: dict[str, Any]) -> TorchTask:
    """The user's file, or the transformer where none is named."""
    seed, data_seed = setting.seed, knobs["data_seed"]
    if knobs["file"]:
        what = from_file(str(knobs["file"]), seed, data_seed)
    else:
        sizes = (knobs["width"], knobs["layers"], knobs["heads"], knobs["tokens"])
        what = on_markov_text(*sizes, seed, data_seed)
    if what.groups is None and setting.split != "iid":
        rule = "targets are not one class a sample, so there is nothing to divide by; allowed: iid"
        raise BadInput(Problem(field="learning.split", value=setting.split, rule=rule))
    groups = np.zeros(len(what.inputs), np.int64) if what.groups is None else what.groups.numpy().astype(np.int64)
    return TorchTask(setting, what, split(setting, groups, Draws(data_seed)), knobs["way"] == "stacked")


TASKS.add(
    "torch-module",
    TaskKind(
        id="torch-module",
        summary="your own PyTorch module with its data, or a small transformer",
        build=build,
        knobs={
            "file": Knob("", doc="a Python file with model() and data(); empty: a small transformer"),
            "way": Knob("loop", choices=("loop", "stacked"), doc="rows one by one, or all in one vectorised pass"),
            "width": Knob(32, 1, 8192, "of the transformer"),
            "layers": Knob(2, 1, 1000, "of the transformer"),
            "heads": Knob(4, 1, 1000, "of the transformer"),
            "tokens": Knob(32, 2, 8192, "that the transformer sees"),
            "data_seed": DATA_SEED,
        },
        splits=SPLITS,
        packages=("torch",),
        source="Vaswani et al. 2017, with normalisation before each part (Xiong et al. 2020)",
    ),
)
