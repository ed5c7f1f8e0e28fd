"""Phrases of the grammar: words, `[optional parts]`, `(one|or another)` and `{placeholders}`, matched to tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.questions.tokens import Token, tokens_of

_PIECE = re.compile(r"\{\w+(?::\w+)?\}|[\[\]()|]|[^\s\[\](){}|]+")
Values = dict[str, Any]
Placeholder = Callable[[tuple[Token, ...], int], tuple[Any, int] | None]


@dataclass(frozen=True, slots=True)
class Word:
    """One token, as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder: `{length}`, or `{input:length}` where its kind is not its name."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several sequences; an optional part has an empty one among them."""

    ways: tuple[tuple[Piece, ...], ...]


Piece = Word | Slot | Choice


def parsed(phrase: str) -> tuple[Piece, ...]:
    """A phrase as pieces.

    Raises:
        ValueError: brackets do not match.
    """
    pieces = _PIECE.findall(phrase)
    ways = _ways(pieces, "")
    if pieces:
        raise ValueError(f"{phrase}: '{pieces[0]}' closes nothing")
    return ways[0] if len(ways) == 1 else (Choice(ways),)


def _ways(left: list[str], closed_by: str) -> tuple[tuple[Piece, ...], ...]:
    """Sequences with `|` between them, up to the closing bracket, which is taken."""
    ways: list[list[Piece]] = [[]]
    while left and left[0] not in (")", "]"):
        piece = left.pop(0)
        if piece == "|":
            ways.append([])
        elif piece in ("(", "["):
            inner = _ways(left, ")" if piece == "(" else "]")
            ways[-1].append(Choice(inner if piece == "(" else (*inner, ())))
        elif piece.startswith("{"):
            name, _, kind = piece[1:-1].partition(":")
            ways[-1].append(Slot(name, kind or name))
        else:
            ways[-1] += [Word(token.text) for token in tokens_of(piece)]
    if closed_by:
        if not left or left.pop(0) != closed_by:
            raise ValueError(f"'{closed_by}' is missing")
    return tuple(map(tuple, ways))


def matches(
    phrase: tuple[Piece, ...], tokens: tuple[Token, ...], at: int, placeholders: Mapping[str, Placeholder]
) -> Iterator[tuple[int, Values]]:
    """Every way in which tokens from `at` on are a phrase: the place after it, and what its placeholders read."""
    if not phrase:
        yield at, {}
        return
    first, rest = phrase[0], phrase[1:]
    if isinstance(first, Choice):
        for way in first.ways:
            yield from matches((*way, *rest), tokens, at, placeholders)
    elif isinstance(first, Slot):
        found = placeholders[first.kind](tokens, at)
        if found is not None:
            value, after = found
            for end, values in matches(rest, tokens, after, placeholders):
                yield end, {first.name: value, **values}
    elif at < len(tokens) and tokens[at].text == first.text:
        yield from matches(rest, tokens, at + 1, placeholders)
