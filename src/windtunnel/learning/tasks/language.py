"""Predicting the next token from a few before it, by an n-gram network: what the language tasks share.

Source: Bengio et al. 2003, A neural probabilistic language model, without the direct connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Score, Shapes, TaskSetting
from windtunnel.learning.tasks.dense import DenseNet, entropy, expected_loss, softmax_loss
from windtunnel.learning.tasks.kept import Kept
from windtunnel.learning.tasks.splits import Shards


class NgramNet:
    """Embeddings of the last tokens side by side, one hidden layer of tanh, and the vocabulary.

    Parameters: vocabulary·embedding + a dense network of (context·embedding, hidden, vocabulary).
    """

    def __init__(self, vocabulary: int, context: int, embedding: int, hidden: int, dtype: npt.DTypeLike) -> None:
        self.vocabulary, self.context, self.embedding = vocabulary, context, embedding
        self.dense = DenseNet((context * embedding, hidden, vocabulary), "tanh", dtype)
        self.shapes: Shapes = ((vocabulary, embedding), *self.dense.shapes)
        self.kept = Kept(dtype)
        self._table = vocabulary * embedding

    def initial(self, draws: Draws) -> Reals:
        """Embeddings normal with variance 1, the rest as in `DenseNet.initial`. Shape (params,)."""
        table = draws.normals("initial embedding", 0, 0, self._table)[0].astype(self.kept.dtype)
        return np.concatenate([table, self.dense.initial(draws)])

    def forward(self, params: Reals, contexts: Ints) -> Reals:
        """Logits, shape (rows, batch, vocabulary), in memory that the next call writes again.

        Args:
            params: Shape (rows, params).
            contexts: Tokens, shape (rows, batch, context).
        """
        rows, batch, _ = contexts.shape
        hot, x = self._inputs(rows, batch)
        tokens = contexts.reshape(-1)
        hot[:] = 0.0
        hot.reshape(-1)[np.arange(len(tokens)) * self.vocabulary + tokens] = 1.0
        tables = self.kept("tables", rows, self._table)
        tables[:] = params[:, : self._table]
        entries = (contexts.reshape(rows, -1) + np.arange(rows)[:, None] * self.vocabulary).reshape(-1)
        np.take(tables.reshape(-1, self.embedding), entries, axis=0, out=x.reshape(-1, self.embedding), mode="clip")
        return self.dense.forward(params[:, self._table :], x.reshape(rows, batch, -1))

    def backward(self, params: Reals, dy: Reals, out: Reals) -> None:
        """Write gradients of what `forward` last computed to `out`, shape (rows, params)."""
        rows, batch, _ = dy.shape
        hot, x = self._inputs(rows, batch)
        dx = self.kept("gradient at inputs", rows, batch, self.context * self.embedding)
        self.dense.backward(params[:, self._table :], x.reshape(rows, batch, -1), dy, out[:, self._table :], dx)
        table = out[:, : self._table].reshape(rows, self.vocabulary, self.embedding)
        np.matmul(hot.transpose(0, 2, 1), dx.reshape(x.shape), out=table)

    def _inputs(self, rows: int, batch: int) -> tuple[Reals, Reals]:
        """One-hot tokens, shape (rows, batch·context, vocabulary), and their embeddings."""
        hot = self.kept("one-hot", rows, batch * self.context, self.vocabulary)
        return hot, self.kept("embedded", rows, batch * self.context, self.embedding)


@dataclass(frozen=True, slots=True)
class Text:
    """Documents of equal length, and contexts held out."""

    tokens: Ints
    """Shape (documents, tokens of a document)."""
    groups: Ints
    """What splits divide over workers: the topic of each document, shape (documents,)."""
    held_contexts: Ints
    """Shape (held out, context)."""
    held_law: Floats
    """Probability of each next token, shape (held out, vocabulary); 1 at the next token where no law is known."""
    law_known: bool = False


@dataclass(slots=True)
class Language:
    """Cross-entropy of the next token, in nats."""

    setting: TaskSetting
    net: NgramNet
    text: Text
    shards: Shards
    window: int = 1
    """Tokens that are predicted in one sample, side by side in a document."""
    shapes: Shapes = ()
    floor: float | None = None
    metric: str = "accuracy"
    _held_net: NgramNet = field(init=False)
    _offsets: Ints = field(init=False)
    """Of the tokens of each context of a window, shape (window, context + 1)."""

    def __post_init__(self) -> None:
        net = self.net
        self._offsets = np.arange(self.window)[:, None] + np.arange(net.context + 1)
        self.shapes = net.shapes
        self.floor = entropy(self.text.held_law) if self.text.law_known else None
        hidden = net.dense.sizes[1]
        self._held_net = NgramNet(net.vocabulary, net.context, net.embedding, hidden, net.kept.dtype)

    @property
    def workers(self) -> int:
        """Workers of the task."""
        return self.setting.workers

    def initial(self) -> Reals:
        """See `Task.initial`."""
        return self.net.initial(self.setting.draws)

    def gradients(self, params: Reals, workers: Ints, steps: Ints, out: Reals) -> Floats:
        """See `Task.gradients`."""
        windows = self._windows(workers, steps)
        contexts, following = windows[:, :, :-1], windows[:, :, -1]
        logits = self.net.forward(params, contexts)
        losses = softmax_loss(self.net.kept, logits, following)
        self.net.backward(params, logits, out)
        return losses

    def evaluate(self, params: Reals) -> Score:
        """See `Task.evaluate`."""
        held = self.text.held_contexts[None]
        scores = [expected_loss(self._held_net.forward(row[None], held)[0], self.text.held_law) for row in params]
        loss, right = np.array(scores).reshape(-1, 2).T
        return Score(loss.copy(), right.copy())

    def _windows(self, workers: Ints, steps: Ints) -> Ints:
        """Contexts with the token behind them, shape (rows, batch · window, context + 1)."""
        draws, batch, length = self.setting.draws, self.setting.batch, self.net.context + self.window
        documents = self.shards.batches(draws, workers, steps, batch)
        size = self.text.tokens.shape[1]
        places = draws.integers("places", workers, steps, batch, size - length + 1)
        first = documents * size + places
        tokens = self.text.tokens.reshape(-1)[first[:, :, None, None] + self._offsets]
        return np.asarray(tokens.reshape(len(workers), -1, self.net.context + 1))
