"""Questions on a terminal: one line each, with a default, asked again until the answer can be read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from windtunnel.cli.output import note

_MOST = 1_000_000


def on_terminal() -> bool:
    """Whether someone can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def whole(text: str) -> int:
    """A whole number above 0.

    Raises:
        BadInput: anything else.
    """
    from windtunnel.errors import BadInput, Problem

    if not text.isascii() or not text.isdigit() or not 0 < int(text[:10]) <= _MOST:
        raise BadInput(Problem("", f"must be a whole number from 1 to {_MOST}", text))
    return int(text)


AnswerT = TypeVar("AnswerT")


def ask(question: str, default: str, read: Callable[[str], AnswerT]) -> AnswerT:
    """The answer to a question on the terminal; one that cannot be read is refused with the reason and asked again.

    Args:
        question: without its mark at the end.
        default: what an empty answer stands for.
        read: turns the text into the answer, or raises `BadInput`.

    Raises:
        Exit: the user ended the questions (130, as for Ctrl-C).
    """
    from windtunnel.errors import BadInput

    while True:
        try:
            text = input(f"{question} [{default}]: ").strip() or default
        except (EOFError, KeyboardInterrupt):
            note("")
            raise typer.Exit(130) from None
        try:
            return read(text)
        except BadInput as error:
            for problem in error.problems:
                note(str(problem))
