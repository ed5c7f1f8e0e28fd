"""Words of the command line that are a question."""

from __future__ import annotations

import pytest

from windtunnel.cli.ask import as_command

COMMANDS = ("train", "serve", "plan", "ask")


@pytest.mark.parametrize(
    "words", [["llama3-70b on 64 h100"], ["llama3-70b", "on", "64", "h100"], ["train llama3-70b on 64 h100", "--json"]]
)
def test_a_question_is_asked(words: list[str]) -> None:
    assert as_command(words, COMMANDS) == ["ask", *words]


@pytest.mark.parametrize(
    "words", [["train", "x.yaml"], ["trian", "x.yaml"], ["--help"], ["nonsense"], [], ["plann"], ["--version"]]
)
def test_a_command_and_a_slip_of_one_are_none(words: list[str]) -> None:
    assert as_command(words, COMMANDS) == words
