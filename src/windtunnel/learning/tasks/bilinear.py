"""A two-player game, xᵀA_i y with weights and shifts of its own for each worker: what saddle-point methods solve.

Gradient descent circles around the saddle point or leaves it; extragradient reaches it. The loss is half the squared
distance to the saddle point of the mean game, which is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import Score, Shapes, TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class Bilinear:
    """min over x, max over y of ½μ‖x‖² + xᵀA_i y − ½μ‖y‖² + b_iᵀx − c_iᵀy, mean over workers.

    Parameters are (x, y); the "gradient" is (∇ₓ, −∇ᵧ), the field that both players step against.
    """

    setting: TaskSetting
    matrices: Floats
    """A_i, shape (workers, d, d)."""
    shifts: Floats
    """(b_i, c_i), shape (workers, 2d)."""
    mu: float
    noise: float = 0.0
    """Standard deviation of one sample's gradient noise, per entry."""
    metric: str = ""
    floor: float | None = 0.0
    shapes: Shapes = ()
    saddle: Floats = field(init=False)
    """Shape (2d,)."""

    def __post_init__(self) -> None:
        d = self.matrices.shape[1]
        self.shapes = ((d,), (d,))
        a, own = self.matrices.mean(axis=0), self.mu * np.eye(d)
        field_matrix = np.block([[own, a], [-a.T, own]])
        self.saddle = np.linalg.solve(field_matrix, -self.shifts.mean(axis=0))

    @property
    def workers(self) -> int:
        """Workers of the task."""
        return len(self.matrices)

    def initial(self) -> Reals:
        """All entries at 1."""
        return np.ones(2 * self.matrices.shape[1])

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """See `Task.gradients`; losses are those of `evaluate`."""
        d, a = self.matrices.shape[1], self.matrices[workers]
        x, y = params[:, :d], params[:, d:]
        np.multiply(params, self.mu, out=out)
        out += self.shifts[workers]
        out[:, :d] += (a @ y[:, :, None])[:, :, 0]
        out[:, d:] -= (a.swapaxes(1, 2) @ x[:, :, None])[:, :, 0]
        if self.noise:
            scale = self.noise / np.sqrt(self.setting.batch)
            out += scale * self.setting.draws.normals("gradient noise", workers, steps, out.shape[1])
        return self.evaluate(params).loss

    def evaluate(self, params: Reals) -> Score:
        """See `Task.evaluate`."""
        loss = 0.5 * ((params - self.saddle) ** 2).sum(axis=1)
        return Score(loss, np.full(len(params), np.nan))


def build(setting: TaskSetting, knobs: dict[str, Any]) -> Bilinear:
    """One matrix with log-spaced singular values from 1/condition to 1, to which each worker adds its own."""
    d, n, draws = int(knobs["params"]), setting.workers, Draws(knobs["data_seed"])
    u, v = (np.linalg.qr(draws.normals(name, np.arange(d), 0, d))[0] for name in ("rows", "columns"))
    shared = (u * np.logspace(-np.log10(knobs["condition"]), 0.0, d)) @ v
    own = draws.normals("own game", np.arange(n * d), 0, d).reshape(n, d, d) * (knobs["spread"] / np.sqrt(d))
    shifts = draws.normals("shift", np.arange(n), 0, 2 * d)
    return Bilinear(setting, shared + own, shifts, float(knobs["mu"]), float(knobs["noise"]))


TASKS.add(
    "bilinear",
    TaskKind(
        id="bilinear",
        summary="a two-player game with a known saddle point",
        build=build,
        knobs={
            "params": Knob(32, 1, 2000, "entries of each player"),
            "condition": Knob(5.0, 1.0, 1e6, "largest over smallest singular value"),
            "mu": Knob(0.0, 0.0, 1e3, "weight of each player's own square; 0: bilinear"),
            "spread": Knob(0.3, 0.0, 1e3, "size of what each worker adds to the game"),
            "noise": Knob(0.0, 0.0, 1e6, "standard deviation of one sample's gradient, per entry"),
            "data_seed": DATA_SEED,
        },
        source="Beznosikov et al. 2022 (arXiv 2110.03313), experiments on bilinear games",
    ),
)
