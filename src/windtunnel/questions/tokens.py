"""A question cut into tokens: numbers, runs of letters, and single marks."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<path>(?:\.{0,2}/|~/)?[\w./~-]*[\w-]\.(?:json|ya?ml)\b)"
    r"|(?P<number>\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?: 000)+(?!\d)|\d+(?:\.\d+)*)"
    r"|(?P<with>\bw/o?(?=\s))"
    r"|(?P<minus>(?:(?<=\s)|^)[-−](?=\d))"
    r"|(?P<mark>(?<=\d)[xX](?=[A-Za-z\d]))"
    r"|(?P<word>[^\W\d_]+)"
    r"|(?P<other>\S)"
)
SILENT = frozenset(",;:?!.()[]\"'`-_&–—’“”")
"""Marks that may stand anywhere without a meaning of their own."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a question."""

    text: str
    """In lower case."""
    start: int
    """Where it begins in the question."""
    end: int
    kind: str
    """number, word, path, mark (the x of `8xh100`), with, minus or other."""

    @property
    def solid(self) -> bool:
        """Whether it is letters or digits, which may not be cut from their neighbours."""
        return self.kind in ("number", "word")


def tokens_of(words: str) -> tuple[Token, ...]:
    """The tokens of a text.

    Example:
        >>> [token.text for token in tokens_of("8xh100, 3k/300")]
        ['8', 'x', 'h', '100', ',', '3', 'k', '/', '300']
    """
    return tuple(
        Token(_text(found[0], str(found.lastgroup)), *found.span(), str(found.lastgroup))
        for found in _TOKEN.finditer(words)
    )


def _text(found: str, kind: str) -> str:
    """The text of a token: `w/` is with, `w/o` without; the sign of a negative number is no hyphen."""
    if kind in ("with", "minus"):
        return {"w/": "with", "w/o": "without"}.get(found.lower(), "minus")
    return found if kind == "path" else found.lower()


def glued(tokens: tuple[Token, ...], place: int) -> bool:
    """Whether letters or digits go on without a space from the token before `place` to the one there."""
    if not 0 < place < len(tokens):
        return False
    before, after = tokens[place - 1], tokens[place]
    return before.end == after.start and before.solid and after.solid
