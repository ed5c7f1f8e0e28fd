"""`windtunnel batch`: questions as JSON lines, answered in one warm process."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Trust, examples


def batch(
    questions: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines; `-` reads standard input.")] = "-",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Answer questions, one JSON line each.

    A question is {"id": 1, "verb": "train", "scenario": "my.yaml", "set": {"plan.tp": 8}}.
    """
    from windtunnel.batch import answers
    from windtunnel.cli.output import print_json_line
    from windtunnel.files import reading

    del as_json, trust  # every answer is JSON; `--trust` acts as it is read
    if questions == "-":
        stream, folder = sys.stdin, Path()
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    else:
        stream, folder = reading.open_text(questions, errors="replace"), Path(questions).parent
    with stream:
        for answer in answers(stream, folder):
            print_json_line(answer)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples("batch questions.jsonl > answers.jsonl", "batch - < questions.jsonl"),
    )(batch)
