"""A language of Markov chains of order two with Zipf's law and hidden topics, learned by an n-gram network.

A document has a topic, and a topic a law of the next token given the last two. The network sees the last tokens but
not the topic; the best that can be made of them is known exactly (Bayes' rule over topics), and so is the lowest loss.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED, DTYPE
from windtunnel.learning.tasks.language import Language, NgramNet, Text
from windtunnel.learning.tasks.splits import SPLITS, split
from windtunnel.techniques.knobs import Knob


def transition_laws(
    vocabulary: int, topics: int, zipf: float, structure: float, contrast: float, draws: Draws
) -> Floats:
    """Law of the next token given topic and the last two, shape (topics, vocabulary, vocabulary, vocabulary).

    log p(c | a, b, topic) = −zipf·log(rank of c) + structure·(A[a, c] + B[b, c])/√2 + contrast·T[topic, b, c] + const,
    with A, B and T standard normal.
    """
    v = vocabulary
    a = draws.normals("token before last", np.arange(v), 0, v)
    b = draws.normals("last token", np.arange(v), 0, v)
    t = draws.normals("topic", np.arange(topics * v), 0, v).reshape(topics, 1, v, v)
    logs = -zipf * np.log(np.arange(1, v + 1)) + structure / np.sqrt(2.0) * (a[:, None] + b[None]) + contrast * t
    laws = np.exp(logs - logs.max(axis=3, keepdims=True))
    return np.asarray(laws / laws.sum(axis=3, keepdims=True))


def stationary_pairs(law: Floats) -> Floats:
    """Stationary law of two tokens in a row under one topic, shape (vocabulary, vocabulary)."""
    v = len(law)
    pairs = np.full((v, v), 1.0 / v**2)
    for _ in range(1000):
        after = np.einsum("ab,abc->bc", pairs, law)
        if np.abs(after - pairs).max() < 1e-15:
            break
        pairs = after
    return np.asarray(after / after.sum())


def bayes_law(laws: Floats, pairs: Floats, contexts: Ints) -> Floats:
    """Law of the next token given the last tokens alone, topics equally likely before, shape (rows, vocabulary).

    Args:
        laws: Of `transition_laws`.
        pairs: Stationary pairs of each topic, shape (topics, vocabulary, vocabulary).
        contexts: Shape (rows, context), context 2 or more.
    """
    weight = pairs[:, contexts[:, 0], contexts[:, 1]]
    for at in range(2, contexts.shape[1]):
        weight = weight * laws[:, contexts[:, at - 2], contexts[:, at - 1], contexts[:, at]]
    weight = weight / weight.sum(axis=0)
    return np.asarray(np.einsum("kr,krc->rc", weight, laws[:, contexts[:, -2], contexts[:, -1]]))


def documents(laws: Floats, pairs: Floats, topic: Ints, length: int, draws: Draws, purpose: str) -> Ints:
    """Documents of these topics, shape (documents, length), each from its topic's stationary law."""
    count, v = len(topic), laws.shape[1]
    tokens = np.empty((count, length), np.int64)
    u = draws.uniforms(purpose, np.arange(count), 0, length)
    ends = np.cumsum(pairs.reshape(len(pairs), -1), axis=1)
    for k in range(len(pairs)):
        mine = topic == k
        first = np.searchsorted(ends[k], u[mine, 0], side="right").clip(0, v * v - 1)
        tokens[mine, 0], tokens[mine, 1] = np.divmod(first, v)
    steps = np.cumsum(laws, axis=3)
    for at in range(2, length):
        below = steps[topic, tokens[:, at - 2], tokens[:, at - 1]] <= u[:, at, None]
        tokens[:, at] = below.sum(axis=1).clip(0, v - 1)
    return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a language is, and how much of it is written."""

    vocabulary: int
    topics: int
    zipf: float
    structure: float
    contrast: float
    context: int
    """Tokens of a context."""
    documents: int
    document_tokens: int
    """Of each."""
    held_out: int
    """Documents that are only evaluated on."""
    data_seed: int


@lru_cache(maxsize=2)
def text(w: Written) -> Text:
    """Documents to learn from, topics in turn, and contexts of documents that are only evaluated on."""
    draws = Draws(w.data_seed)
    laws = transition_laws(w.vocabulary, w.topics, w.zipf, w.structure, w.contrast, draws)
    pairs = np.array([stationary_pairs(law) for law in laws])
    topic = np.arange(w.documents) % w.topics
    learned = documents(laws, pairs, topic, w.document_tokens, draws, "documents")
    contexts = documents(laws, pairs, np.arange(w.held_out) % w.topics, w.context, draws, "held out")
    return Text(learned, topic, contexts, bayes_law(laws, pairs, contexts), law_known=True)


def build(setting: TaskSetting, knobs: dict[str, Any]) -> Language:
    """Splits divide topics over workers."""
    k = dict(knobs)
    if k["document_tokens"] < k["context"] + k["window"]:
        rule = f"must be at least context + window, {k['context'] + k['window']}"
        raise BadInput(Problem(field="learning.task.markov-lm.document_tokens", value=k["document_tokens"], rule=rule))
    written = {field.name: k[field.name] for field in fields(Written)}
    data = text(Written(**written | {name: float(k[name]) for name in ("zipf", "structure", "contrast")}))
    net = NgramNet(k["vocabulary"], k["context"], k["embedding"], k["hidden"], k["dtype"])
    return Language(setting, net, data, split(setting, data.groups, Draws(k["data_seed"])), k["window"])


TASKS.add(
    "markov-lm",
    TaskKind(
        id="markov-lm",
        summary="a language of order two with Zipf's law and hidden topics; splits divide topics, the floor is known",
        build=build,
        knobs={
            "vocabulary": Knob(32, 2, 128, "tokens of the vocabulary"),
            "context": Knob(4, 2, 64, "tokens that the network sees"),
            "embedding": Knob(16, 1, 1024, "entries of an embedding"),
            "hidden": Knob(64, 1, 10_000, "hidden units"),
            "topics": Knob(8, 1, 64, "hidden topics, one a document"),
            "zipf": Knob(1.0, 0.0, 10.0, "exponent of the tokens' frequencies"),
            "structure": Knob(1.5, 0.0, 10.0, "spread of what the last two tokens say about the next"),
            "contrast": Knob(0.5, 0.0, 10.0, "spread of what the topic says about it"),
            "documents": Knob(4096, 1, 1_000_000, "documents to learn from"),
            "document_tokens": Knob(64, 3, 100_000, "tokens of a document"),
            "window": Knob(16, 1, 10_000, "tokens that are predicted in one sample, side by side"),
            "held_out": Knob(2048, 1, 1_000_000, "contexts held out"),
            "data_seed": DATA_SEED,
            "dtype": DTYPE,
        },
        splits=SPLITS,
    ),
)
