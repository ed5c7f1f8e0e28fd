"""Phrases of the grammar."""

from __future__ import annotations

import re

import pytest

from windtunnel.questions.amounts import AMOUNTS
from windtunnel.questions.names import placeholders
from windtunnel.questions.patterns import Choice, Piece, Slot, matches, parsed
from windtunnel.questions.reading import grammar
from windtunnel.questions.tokens import tokens_of


def ends(phrase: str, text: str) -> set[int]:
    """Places after which a phrase may end."""
    return {end for end, _ in matches(parsed(phrase), tokens_of(text), 0, AMOUNTS)}


def slots(pieces: tuple[Piece, ...]) -> set[str]:
    """Names of placeholders in a phrase."""
    found: set[str] = set()
    for piece in pieces:
        if isinstance(piece, Slot):
            found.add(piece.name)
        elif isinstance(piece, Choice):
            found |= {name for way in piece.ways for name in slots(way)}
    return found


def test_an_optional_part_may_be_there() -> None:
    assert ends("batch [size] {count}", "batch size 8") == {3}
    assert ends("batch [size] {count}", "batch 8") == {2}
    assert ends("batch [size] {count}", "size 8") == set()


def test_one_of_several_words() -> None:
    assert ends("(tp|tensor parallel) {whole}", "tensor parallel 4") == {3}
    assert ends("(tp|tensor parallel) {whole}", "tensor 4") == set()


@pytest.mark.parametrize("phrase", ["(a|b", "a]", "[a"])
def test_brackets_must_match(phrase: str) -> None:
    with pytest.raises(ValueError, match=re.escape("'")):
        parsed(phrase)


def test_every_placeholder_is_read_and_set() -> None:
    """A phrase that read a number and dropped it would answer another question."""
    kinds = {**AMOUNTS, **placeholders("")}
    for rule in grammar().rules:
        wanted = {str(v)[1:-1] for v in rule.sets.values() if isinstance(v, str) and v.startswith("{")}
        for phrase in rule.phrases:
            assert slots(phrase) == wanted, (rule.sets, phrase)
            assert all(kind in kinds for kind in _kinds(phrase))


def _kinds(pieces: tuple[Piece, ...]) -> set[str]:
    found: set[str] = set()
    for piece in pieces:
        if isinstance(piece, Slot):
            found.add(piece.kind)
        elif isinstance(piece, Choice):
            found |= {kind for way in piece.ways for kind in _kinds(way)}
    return found


def test_idle_words_turn_no_meaning_around() -> None:
    assert not grammar().idle & {"not", "no", "without", "except", "only", "never", "instead", "half", "double", "per"}
