"""Characters of a text, learned by an n-gram network: sentences of a small grammar, or a file of the user's own.

The grammar is a probabilistic context-free one; each genre prefers other words and other rules, and splits divide
genres over workers. Of a file, splits divide sixteen stretches of equal length.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.learning.tasks.classification import DATA_SEED, DTYPE
from windtunnel.learning.tasks.language import Language, NgramNet, Text
from windtunnel.learning.tasks.splits import SPLITS, split
from windtunnel.techniques.knobs import Knob

GENRES = 8
_STRETCHES = 16
_RULES: dict[str, tuple[tuple[str, ...], ...]] = {
    "sentence": (("thing", "does"), ("place", "thing", "does"), ("sentence", "and", "sentence")),
    "thing": (("the", "noun"), ("the", "quality", "noun"), ("name",), ("thing", "place")),
    "does": (("verb", "thing"), ("verb",), ("verb", "place"), ("says", "that", "sentence")),
    "place": (("near", "thing"),),
}
_WORDS = {
    "the": "the a this every one no some".split(),
    "and": "and but while because".split(),
    "that": "that how".split(),
    "near": "near in under behind with over from".split(),
    "says": "says knows hopes sees".split(),
    "name": "anna boris clara daniel emma felix greta hugo".split(),
    "noun": "cat river house machine garden letter winter engine bird street mountain table window ship".split(),
    "quality": "old small quiet bright heavy green slow empty cold strange".split(),
    "verb": "finds moves holds breaks likes follows turns builds reads carries".split(),
}
_DEEPEST = 6
"""Below this depth the first rule is taken, so that sentences end."""


class Genre:
    """Rules and words under a Zipf law, in an order of the genre's own."""

    def __init__(self, number: int, draws: Draws) -> None:
        self._choices: dict[str, list[Any]] = {}
        self._ends: dict[str, list[float]] = {}
        for name, choices in [*_RULES.items(), *_WORDS.items()]:
            self._choices[name] = [choices[i] for i in draws.order(f"{name} of {number}", 0, len(choices))]
            weights = 1.0 / np.arange(1, len(choices) + 1)
            self._ends[name] = (np.cumsum(weights) / weights.sum()).tolist()

    def document(self, number: int, length: int, draws: Draws) -> str:
        """Sentences until there are `length` characters."""
        out: list[str] = []
        size = 0
        while size < length:
            chances = iter(draws.uniforms("sentence", number, len(out), 256)[0].tolist())
            sentence = " ".join(self._spoken("sentence", 0, chances)) + ". "
            out.append(sentence)
            size += len(sentence)
        return "".join(out)[:length]

    def _spoken(self, symbol: str, depth: int, chances: Iterator[float]) -> list[str]:
        if symbol in _WORDS:
            return [self._pick(symbol, chances)]
        rule = _RULES[symbol][0] if depth >= _DEEPEST else self._pick(symbol, chances)
        return [word for part in rule for word in self._spoken(part, depth + 1, chances)]

    def _pick(self, symbol: str, chances: Iterator[float]) -> Any:
        return self._choices[symbol][bisect_right(self._ends[symbol], next(chances, 0.0))]


@lru_cache(maxsize=2)
def from_grammar(count: int, length: int, context: int, seed: int) -> tuple[Text, int]:
    """Documents of the grammar, genres in turn, and the size of their vocabulary."""
    draws = Draws(seed)
    genres = [Genre(number, draws) for number in range(GENRES)]
    text = "".join(genres[number % GENRES].document(number, length, draws) for number in range(count))
    codes, vocabulary = _codes(text)
    return _divided(codes.reshape(count, length), np.arange(count) % GENRES, context), vocabulary


@lru_cache(maxsize=2)
def from_file(path: str, length: int, context: int) -> tuple[Text, int]:
    """Documents of a text file, one after the other, and the size of its vocabulary.

    Raises:
        BadInput: it cannot be read, is too short for ten documents, or has more than 1,024 different characters.
    """
    field = "learning.task.ngram-lm.file"
    text = reading.read_text(path, field)
    count = len(text) // length
    if count < 10:
        rule = f"has {len(text)} characters; ten documents of {length} are the least (`document_tokens`)"
        raise BadInput(Problem(field=field, value=path, rule=rule))
    codes, vocabulary = _codes(text[: count * length])
    if vocabulary > 1024:
        rule = f"has {vocabulary} different characters, at most 1024 are learned"
        raise BadInput(Problem(field=field, value=path, rule=rule))
    return _divided(codes.reshape(count, length), np.arange(count) * _STRETCHES // count, context), vocabulary


def _codes(text: str) -> tuple[Ints, int]:
    """Number of each character among the sorted different ones, and how many these are."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    known, codes = np.unique(points, return_inverse=True)
    return codes.astype(np.int64), len(known)


def _divided(tokens: Ints, groups: Ints, context: int) -> Text:
    """Every tenth document is held out: each group's documents are, and contexts side by side in them are scored."""
    held = np.arange(len(tokens)) % 10 == 9
    windows = np.lib.stride_tricks.sliding_window_view(tokens[held], context + 1, axis=1).reshape(-1, context + 1)
    windows = windows[:: max(1, len(windows) // 2048)][:2048]
    law = np.eye(int(tokens.max()) + 1)[windows[:, -1]]
    return Text(tokens[~held], groups[~held], windows[:, :-1], law)


def build(setting: TaskSetting, knobs: dict[str, Any]) -> Language:
    """Splits divide genres, or stretches of a file."""
    k = knobs
    if k["document_tokens"] < k["context"] + k["window"]:
        rule = f"must be at least context + window, {k['context'] + k['window']}"
        raise BadInput(Problem(field="learning.task.ngram-lm.document_tokens", value=k["document_tokens"], rule=rule))
    if k["file"]:
        text, vocabulary = from_file(str(k["file"]), k["document_tokens"], k["context"])
    else:
        text, vocabulary = from_grammar(k["documents"], k["document_tokens"], k["context"], k["data_seed"])
    net = NgramNet(vocabulary, k["context"], k["embedding"], k["hidden"], k["dtype"])
    return Language(setting, net, text, split(setting, text.groups, Draws(k["data_seed"])), k["window"])


TASKS.add(
    "ngram-lm",
    TaskKind(
        id="ngram-lm",
        summary="characters of a small grammar's sentences, or of a text file; splits divide genres or stretches",
        build=build,
        knobs={
            "file": Knob("", doc="a text file in UTF-8; empty: sentences of the built-in grammar"),
            "context": Knob(6, 1, 64, "characters that the network sees"),
            "embedding": Knob(16, 1, 1024, "entries of an embedding"),
            "hidden": Knob(64, 1, 10_000, "hidden units"),
            "documents": Knob(512, 10, 100_000, "documents of the grammar, a tenth of them held out"),
            "document_tokens": Knob(256, 2, 100_000, "characters of a document"),
            "window": Knob(16, 1, 10_000, "characters that are predicted in one sample, side by side"),
            "data_seed": DATA_SEED,
            "dtype": DTYPE,
        },
        splits=SPLITS,
        source="Bengio et al. 2003, A neural probabilistic language model, without direct connections",
    ),
)
