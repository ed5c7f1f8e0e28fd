"""Quadratics ½(x − b_i)ᵀA_i(x − b_i) with noisy gradients: every expectation has a closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import Score, Shapes, TaskSetting
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class Quadratic:
    """Diagonal quadratics, one a worker; the loss of all is their mean."""

    setting: TaskSetting
    curvature: Floats
    """Eigenvalues of each worker's A_i, shape (workers, params)."""
    optimum: Floats
    """b_i, shape (workers, params)."""
    noise: float
    """Standard deviation of one sample's gradient noise, per entry."""
    start: float = 1.0
    metric: str = ""
    shapes: Shapes = ()
    floor: float | None = field(default=None)

    def __post_init__(self) -> None:
        self.shapes = ((self.curvature.shape[1],),)
        mean = self.curvature.mean(axis=0)
        best = (self.curvature * self.optimum).mean(axis=0) / mean
        self.floor = float(self._losses(best[None, :])[0])

    @property
    def workers(self) -> int:
        """Workers of the task."""
        return len(self.curvature)

    def initial(self) -> Reals:
        """All entries at `start`."""
        return np.full(self.curvature.shape[1], self.start)

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """See `Task.gradients`."""
        a, b = self.curvature[workers], self.optimum[workers]
        away = params - b
        np.multiply(a, away, out=out)
        losses = 0.5 * (out * away).sum(axis=1)
        if self.noise:
            scale = self.noise / np.sqrt(self.setting.batch)
            out += scale * self.setting.draws.normals("gradient noise", workers, steps, out.shape[1])
        return np.asarray(losses)

    def evaluate(self, params: Reals) -> Score:
        """See `Task.evaluate`."""
        losses = self._losses(params)
        return Score(losses, np.full(len(params), np.nan))

    def _losses(self, params: Reals) -> Floats:
        away = params[:, None, :] - self.optimum[None, :, :]
        return np.asarray(0.5 * (self.curvature * away * away).sum(axis=2).mean(axis=1))


def build(setting: TaskSetting, knobs: dict[str, Any]) -> Quadratic:
    """Log-spaced eigenvalues from 1/condition to 1, the same for all workers where nothing is shifted."""
    d, n = int(knobs["params"]), setting.workers
    spectrum = np.logspace(-np.log10(knobs["condition"]), 0.0, d)
    draws = Draws(knobs["data_seed"])
    spread = draws.uniforms("curvature", np.arange(n), 0, d) - 0.5
    curvature = spectrum * np.exp(knobs["curvature_spread"] * spread)
    optimum = knobs["shift"] * draws.normals("optimum", np.arange(n), 0, d)
    return Quadratic(setting, curvature, optimum, float(knobs["noise"]))


TASKS.add(
    "quadratic",
    TaskKind(
        id="quadratic",
        summary="quadratic bowls with a spectrum, noise and optima that differ between workers",
        build=build,
        knobs={
            "params": Knob(64, 1, 100_000, "entries"),
            "condition": Knob(100.0, 1.0, 1e9, "largest over smallest eigenvalue"),
            "noise": Knob(0.5, 0.0, 1e6, "standard deviation of one sample's gradient, per entry"),
            "shift": Knob(0.0, 0.0, 1e6, "standard deviation of optima between workers"),
            "data_seed": Knob(1, 0, 2**31, "seed of curvature and optima, which all seeds of a run share"),
            "curvature_spread": Knob(0.0, 0.0, 20.0, "width of the log-uniform law of curvature between workers"),
        },
    ),
)
