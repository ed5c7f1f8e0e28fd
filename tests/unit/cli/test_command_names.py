"""Names of commands, by which a question is told from a command."""

from __future__ import annotations

import typer

from windtunnel.cli.main import COMMANDS, VERBS, app


def test_names_are_those_of_the_command_line() -> None:
    assert frozenset(typer.main.get_command(app).commands) == COMMANDS  # type: ignore[attr-defined]
    assert COMMANDS >= {name for names in VERBS.values() for name in names}
