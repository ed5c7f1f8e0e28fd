"""Arguments and options that several commands share. Nothing heavy is imported here: `--help` loads this file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.complete_settings import settings

Scenario = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO", help="Scenario file (YAML or JSON); `-` reads standard input.", show_default=False
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a field, e.g. plan.tp=8 (repeatable).",
        autocompletion=settings,
        show_default=False,
    ),
]
Cite = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the papers of every technique used as BibTeX.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, nothing else.")]


def examples(*lines: str) -> str:
    """Epilog of a command's help, one example a line."""
    return "\b\nExamples:\n" + "\n".join(f"  windtunnel {line}" for line in lines)
