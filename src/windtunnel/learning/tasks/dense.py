"""A network of dense layers for many workers at once, with hand-written gradients.

Every product is one matrix product a row, so a row's bits do not depend on which other rows are computed with it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Shapes, params_of, views
from windtunnel.learning.tasks.kept import Kept

Activation = Literal["relu", "tanh"]


class DenseNet:
    """y = W_L·φ(… φ(x·W_1 + b_1) …) + b_L for rows of parameters. No layer hidden is a linear map.

    Args:
        sizes: Inputs, hidden layers, outputs.
        activation: φ.
        dtype: float32 or float64.
    """

    def __init__(self, sizes: tuple[int, ...], activation: Activation = "relu", dtype: npt.DTypeLike = "float32"):
        self.sizes = sizes
        self.activation = activation
        self.kept = Kept(dtype)
        self.shapes: Shapes = tuple(shape for a, b in pairwise(sizes) for shape in ((a, b), (b,)))
        self.params = params_of(self.shapes)

    def initial(self, draws: Draws, purpose: str = "initial") -> Reals:
        """Normal weights of variance 2 (ReLU), else 1, over inputs; no biases. Shape (params,)."""
        gain = 2.0 if self.activation == "relu" and len(self.sizes) > 2 else 1.0
        flat = draws.normals(purpose, 0, 0, self.params)
        for shape, tensor in zip(self.shapes, views(flat, self.shapes), strict=True):
            tensor *= np.sqrt(gain / shape[0]) if len(shape) == 2 else 0.0
        return np.asarray(flat[0], self.kept.dtype)

    def forward(self, params: Reals, x: Reals) -> Reals:
        """Outputs, shape (rows, batch, outputs), in memory that the next call writes again.

        Args:
            params: Shape (rows, params).
            x: Shape (rows, batch, inputs).
        """
        tensors, last = views(params, self.shapes), len(self.sizes) - 2
        for layer, width in enumerate(self.sizes[1:]):
            y = self.kept(f"layer{layer}", len(x), x.shape[1], width)
            np.matmul(x, tensors[2 * layer], out=y)
            y += tensors[2 * layer + 1][:, None, :]
            if layer < last:
                np.tanh(y, out=y) if self.activation == "tanh" else np.maximum(y, 0.0, out=y)
            x = y
        return x

    def backward(self, params: Reals, x: Reals, dy: Reals, out: Reals, dx: Reals | None = None) -> None:
        """Write gradients of what `forward` last computed.

        Args:
            params: As in `forward`.
            x: As in `forward`.
            dy: Gradient at the outputs, shape (rows, batch, outputs).
            out: Gradients at parameters, shape (rows, params).
            dx: Where gradients at the inputs are written, shape (rows, batch, inputs); None: nobody needs them.
        """
        tensors, gradients = views(params, self.shapes), views(out, self.shapes)
        for layer in reversed(range(len(self.sizes) - 1)):
            below = x if layer == 0 else self.kept(f"layer{layer - 1}", len(x), x.shape[1], self.sizes[layer])
            np.matmul(below.transpose(0, 2, 1), dy, out=gradients[2 * layer])
            np.matmul(self._ones(dy), dy, out=gradients[2 * layer + 1][:, None, :])
            if layer == 0:
                if dx is not None:
                    np.matmul(dy, tensors[0].transpose(0, 2, 1), out=dx)
                return
            back = self.kept(f"back{layer}", *below.shape)
            np.matmul(dy, tensors[2 * layer].transpose(0, 2, 1), out=back)
            if self.activation == "relu":
                np.sign(below, out=below)  # what is above zero was let through
            else:
                np.multiply(below, below, out=below)
                np.subtract(1.0, below, out=below)
            back *= below
            dy = back

    def _ones(self, dy: Reals) -> Reals:
        """Shape (rows, 1, batch): a product with ones adds up a batch sooner than a reduction does."""
        ones = self.kept("ones", len(dy), 1, dy.shape[1])
        ones[:] = 1.0
        return ones


def softmax_loss(kept: Kept, logits: Reals, labels: Ints) -> Floats:
    """Cross-entropy against labels; `logits` become its gradient.

    Args:
        kept: Memory.
        logits: Shape (rows, batch, classes); overwritten with the gradient of the batch's mean.
        labels: Shape (rows, batch).

    Returns:
        Mean of each row's batch, shape (rows,).
    """
    rows, batch, classes = logits.shape
    logits -= _largest(kept, logits)
    at = kept("softmax at", rows, batch, dtype=np.int64)
    np.add(labels, classes * np.arange(rows * batch).reshape(rows, batch), out=at)
    flat, hit = logits.reshape(-1), kept("softmax hit", rows, batch)
    np.take(flat, at, out=hit, mode="clip")
    np.exp(logits, out=logits)
    ones, total = kept("softmax ones", rows, classes, 1), kept("softmax total", rows, batch, 1)
    ones[:] = 1.0
    np.matmul(logits, ones, out=total)
    np.subtract(np.log(total[:, :, 0]), hit, out=hit)
    total *= total.dtype.type(batch)
    logits /= total
    flat[at] -= logits.dtype.type(1.0 / batch)
    return np.asarray(hit.mean(axis=1, dtype=np.float64))


def _largest(kept: Kept, logits: Reals) -> Reals:
    """Largest logit of each sample, shape (rows, batch, 1): the halves against each other, again and again."""
    width = (logits.shape[2] + 1) // 2
    best = kept("softmax best", *logits.shape[:2], width)
    np.maximum(logits[:, :, :width], logits[:, :, -width:], out=best)
    while width > 1:
        half = (width + 1) // 2
        np.maximum(best[:, :, :half], best[:, :, width - half : width], out=best[:, :, :half])
        width = half
    return best[:, :, :1]


def expected_loss(logits: Reals, law: Floats) -> tuple[float, float]:
    """Cross-entropy and accuracy in expectation over the law of labels.

    Args:
        logits: Shape (samples, classes).
        law: Probability of each label, shape (samples, classes).
    """
    z = logits.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    right = law[np.arange(len(law)), z.argmax(axis=1)].mean()
    return float((np.log(np.exp(z).sum(axis=1)) - (law * z).sum(axis=1)).mean()), float(right)


def entropy(law: Floats) -> float:
    """Mean entropy of rows of probabilities: the lowest cross-entropy that anything reaches against them."""
    return float(-(law * np.log(np.where(law > 0.0, law, 1.0))).sum(axis=1).mean())
