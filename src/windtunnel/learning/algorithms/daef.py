"""DAEF: a deep autoencoder trained layer by layer in closed form, from matrices that nodes add up.

The encoder's weights are the first left singular vectors of the points. A hidden layer of the decoder is that of an
extreme-learning autoencoder: behind a random layer that all nodes know, the weights that give the layer's inputs back,
transposed. The last layer's weights give the points back. Each of the three is a least-squares problem of which a node
sends a triangular factor and the products with what is wanted; stacked factors have the singular values and vectors
of all points together, so the merged network is the one that a centre with all the data would find. No gradient is
taken and no epoch is run: one pass over the data, in which each layer is merged before the next.

Source: Novoa-Paradela, Fontenla-Romero and Guijarro-Berdiñas 2023, Fast deep autoencoder for federated learning
(arXiv 2206.05136).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Reals
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.randomness import Draws
from windtunnel.learning.state import LearnerState, started
from windtunnel.learning.tasks.autoencoder import Autoencoder
from windtunnel.learning.tasks.base import Shapes, Task
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class PartialMatrices:
    """What a node sends in all: float64 factors and products, layer by layer. A `WireFormat`.

    Tensors are those of dense layers in order: weights (inputs, outputs), each followed by its biases.
    """

    def nbytes(self, shapes: Shapes) -> float:
        """Factors n(n + 1)/2 of the encoder's inputs, of random layers and of the last layer's, and products."""
        weights = [shape for shape in shapes if len(shape) == 2]
        return 8.0 * sum(_entries(i, len(weights), *shape) for i, shape in enumerate(weights))


def _entries(layer: int, layers: int, inputs: int, outputs: int) -> int:
    """Numbers that a node sends for one layer."""
    if layer == 0:
        return inputs * (inputs + 1) // 2
    if layer < layers - 1:
        return outputs * (outputs + 1) // 2 + outputs * inputs
    return (inputs + 1) * (inputs + 2) // 2 + (inputs + 1) * outputs


def factor(rows: Reals) -> Floats:
    """Upper triangular R with RᵀR = rowsᵀ·rows, shape (columns, columns); zero rows where there are fewer samples."""
    columns = rows.shape[1]
    r = np.linalg.qr(rows.astype(np.float64), mode="r")
    return np.vstack([r, np.zeros((columns - len(r), columns))]) if len(r) < columns else np.asarray(r)


def singular(factors: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Singular values and right singular vectors (columns) of all nodes' rows together, signs made unique."""
    _, values, vectors = np.linalg.svd(np.vstack(factors), full_matrices=False)
    signs = np.sign(vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)])
    return values, np.asarray((vectors * signs[:, None]).T)


def ridge(factors: Sequence[Floats], products: Sequence[Floats], penalty: float) -> Floats:
    """Weights of least squares with penalty·‖w‖², from nodes' factors of inputs and products inputsᵀ·wanted."""
    values, vectors = singular(factors)
    added = np.sum(products, axis=0)
    return np.asarray(vectors @ ((vectors.T @ added) / (values**2 + penalty)[:, None]))


def fitted(nodes: Sequence[Reals], sizes: tuple[int, ...], penalty: float, draws: Draws) -> Floats:
    """The network that nodes with these points find together, shape (params,), as `DenseNet` lays it out.

    Args:
        nodes: Points of each node, shape (samples, inputs) each.
        sizes: Inputs, code, hidden layers, inputs.
        penalty: Of weights in the least-squares problems.
        draws: Of the random layers, which all nodes know.
    """
    points = [rows.astype(np.float64) for rows in nodes]
    out: list[Floats] = []

    def keep(weights: Floats, biases: Floats) -> None:
        out.extend([weights.ravel(), biases])

    encoder = singular([factor(rows) for rows in points])[1][:, : sizes[1]]
    keep(encoder, np.zeros(sizes[1]))
    inside = [np.tanh(rows @ encoder) for rows in points]
    for layer, (inputs, outputs) in enumerate(pairwise(sizes[1:-1])):
        random = draws.normals("random layer", np.arange(inputs), layer, outputs) / np.sqrt(inputs)
        biases = draws.normals("random biases", 0, layer, outputs)[0]
        behind = [np.tanh(rows @ random + biases) for rows in inside]
        products = [h.T @ rows for h, rows in zip(behind, inside, strict=True)]
        weights = ridge([factor(h) for h in behind], products, penalty).T
        keep(np.ascontiguousarray(weights), np.zeros(outputs))
        inside = [np.tanh(rows @ weights) for rows in inside]
    last = [np.hstack([rows, np.ones((len(rows), 1))]) for rows in inside]
    products = [h.T @ rows for h, rows in zip(last, points, strict=True)]
    solved = ridge([factor(h) for h in last], products, penalty)
    keep(solved[:-1], solved[-1])
    return np.concatenate(out)


@dataclass(slots=True)
class Daef:
    """A `LockStepAlgorithm` that is done after its first step."""

    job: Job
    penalty: float

    def start(self, initial: Reals) -> LearnerState:
        """All nodes at the task's start; a one-row anchor."""
        state = started(initial, self.job.workers)
        state.anchor = initial[None, :].copy()
        return state

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """The closed form in the first step; no gradients. Losses are those of batches before it.

        Raises:
            BadInput: the task is not an autoencoder.
        """
        if not isinstance(task, Autoencoder):
            rule = "trains autoencoders in closed form, layer by layer; allowed: task autoencoder"
            raise BadInput(Problem(field="learning.algorithms.daef", value="daef", rule=rule))
        losses = task.gradients(state.params, self.job.everyone, np.full(len(out), step), out)
        out[:] = 0.0
        if step == 0:
            assert state.anchor is not None
            nodes = [task.points_of(worker) for worker in range(self.job.workers)]
            state.anchor[:] = fitted(nodes, task.net.sizes, self.penalty, Draws(1)).astype(state.anchor.dtype)
        return losses

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Nothing is exchanged but matrices."""

    def step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Nobody steps."""

    def after_step(self, state: LearnerState, step: int) -> None:
        """All nodes hold the merged network."""
        state.params[:] = state.anchor

    def messages(self, step: int) -> tuple[Message, ...]:
        """Everybody's matrices to everybody, once."""
        if step or self.job.workers == 1:
            return ()
        return (Message(kind="all_gather", wire=PartialMatrices(), after_step=0, needed_by=1),)

    def reported(self, state: LearnerState) -> Reals:
        """The merged network."""
        assert state.anchor is not None
        return state.anchor


def build(job: Job, knobs: dict[str, Any]) -> Daef:
    """See the module."""
    return Daef(job=job, penalty=knobs["penalty"])


ALGORITHMS.add(
    "daef",
    AlgorithmKind(
        id="daef",
        summary="a deep autoencoder in closed form, layer by layer; matrices are merged once",
        build=build,
        knobs={"penalty": Knob(1e-2, 1e-12, 1e12, "of the squares of weights in each least-squares problem")},
        family="fl-edge",
        source="Novoa-Paradela et al. 2023 (arXiv 2206.05136)",
    ),
)
