"""One-liners of the help stand whole on a line of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from windtunnel.cli.main import app

COLUMNS = 80


def _groups(group: Any, name: str = "windtunnel") -> Iterator[tuple[str, Any]]:
    yield name, group
    for own, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _groups(command, own)


GROUPS = dict(_groups(typer.main.get_command(app)))


@pytest.mark.parametrize("name", GROUPS)
def test_one_liners_are_not_cut(name: str) -> None:
    group = GROUPS[name]
    command = typer.main.get_command(app)
    context = command.make_context("windtunnel", [], resilient_parsing=True)
    with command.context_class(group, parent=context, info_name=name, terminal_width=COLUMNS) as own:
        text = group.get_help(own)
    for one, sub in group.commands.items():
        line = next(line for line in text.splitlines() if line.split()[:1] == [one])
        assert line.split(maxsplit=1)[1].strip() == sub.get_short_help_str(1000) and len(line) <= COLUMNS
