"""Tokens of a question, and numbers with their units."""

from __future__ import annotations

import pytest

from windtunnel.questions.amounts import AMOUNTS
from windtunnel.questions.tokens import glued, tokens_of


def amount(kind: str, text: str) -> float | None:
    """What a kind of number reads of a whole text."""
    tokens = tokens_of(text)
    found = AMOUNTS[kind](tokens, 0)
    return found[0] if found is not None and found[1] == len(tokens) else None


def test_letters_and_digits_are_tokens_of_their_own() -> None:
    assert [token.text for token in tokens_of("8xH100 of 3k/300")] == ["8", "x", "h", "100", "of", "3", "k", "/", "300"]


def test_a_path_is_one_token() -> None:
    assert [token.kind for token in tokens_of("from ./my/config.json")] == ["word", "path"]


def test_a_name_is_not_cut_inside() -> None:
    tokens = tokens_of("h100 64")
    assert glued(tokens, 1)
    assert not glued(tokens, 2)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("length", "8k", 8192),
        ("length", "1M", 1024**2),
        ("length", "300", 300),
        ("count", "8k", 8000),
        ("count", "16,384", 16384),
        ("count", "eight", 8),
        ("count", "50 000", 50_000),
        ("count", "sixty four", 64),
        ("count", "a couple of", 2),
        ("count", "two hundred and fifty six", 256),
        ("count", "a hundred", 100),
        ("days", "two weeks", 14),
        ("seconds", "a second", 1),
        ("bits", "400 Gbit", 400e9),
        ("bytes", "24GB", 24e9),
        ("count", "2 trillion", 2e12),
        ("many", "15T", 15e12),
        ("seconds", "500 ms", 0.5),
        ("days", "2 weeks", 14),
        ("watts", "1.2 kW", 1200),
        ("money", "$2M", 2e6),
        ("money", "500 dollars", 500),
        ("percent", "99", 0.99),
    ],
)
def test_a_number_with_its_unit(kind: str, text: str, value: float) -> None:
    assert amount(kind, text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("length", "0"),
        ("length", "8.3"),
        ("count", "1.5"),
        ("seconds", "500"),
        ("watts", "400"),
        ("money", "500"),
        ("many", "8k"),
        ("percent", "100"),
        ("count", "0.10.2"),
        ("count", "hundred"),
    ],
)
def test_what_is_no_such_number_is_not_read(kind: str, text: str) -> None:
    assert amount(kind, text) is None


def test_a_unit_does_not_take_the_first_letter_of_a_device() -> None:
    assert AMOUNTS["count"](tokens_of("8 b200"), 0) == (8.0, 1)
