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


def _trusting(given: bool) -> bool:
    if given:
        from windtunnel.files.trust import trust_all

        trust_all()
    return given


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_trusting,
        help="Run Python files that the input names, now and for as long as they stay as they are. Read them first.",
    ),
]


def _in_detail(given: bool) -> bool:
    if given:
        from windtunnel.cli.output import DETAIL

        DETAIL.append(True)
    return given


Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        callback=_in_detail,
        help="Say also what was assumed and why, the sources, and columns beyond the width.",
    ),
]


def examples(*lines: str) -> str:
    """Epilog of a command's help, one example a line."""
    return "\b\nExamples:\n" + "\n".join(f"  windtunnel {line}" for line in lines)
