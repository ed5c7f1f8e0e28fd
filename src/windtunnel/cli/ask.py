"""`windtunnel "llama3-70b on 64 h100"`: a question in words, answered in a few lines."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import check_new, check_targets, console, draw, listener, note, print_json
from windtunnel.files.writing import write_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from windtunnel.questions.records import Answer

_LIKE_A_COMMAND = 0.7
"""Share of letters in common from which a first word is a mistyped command."""


def ask(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS…", help="The question, best in quotes: model, devices, and what you want to know."
        ),
    ],
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print all that the command of the answer prints.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the scenario of the answer.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question in words: does it fit, how long, how sure.

    `windtunnel "llama3-70b on 64 h100"` is the same without `ask`. A grammar and the catalogue read the words; what
    they do not know is refused.
    """
    from windtunnel.questions.ask import ask as answered

    check_targets(output)
    check_new(output, force=force)
    with listener("answering") as told:
        answer = answered(" ".join(words), listener=told)
    if output is not None:
        write_text(output, answer.scenario_text())
        command = "serve" if answer.taken is not None else answer.command
        note(f"wrote {output}: `windtunnel {command} {output}` answers the same")
    if as_json:
        print_json(answer.to_dict())
    else:
        _print(answer)
        if verbose and answer.result is not None:
            _print_all(answer)
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)


def _print(answer: Answer) -> None:
    from rich.text import Text

    from windtunnel.questions.records import row_lines
    from windtunnel.writers.terminal import STYLES

    out = console()
    for row in answer.rows:
        for line in row_lines(row, min(out.width, 80)):
            out.print(Text(line, STYLES[row.tone]), no_wrap=True, overflow="ignore", crop=False)


def _print_all(answer: Answer) -> None:
    from importlib import import_module

    from windtunnel.commands import COMMANDS

    console().print()
    name = COMMANDS.get(answer.command).view_of(answer.result)
    draw(import_module(f"windtunnel.views.{name}").view(answer.result), everything=True)


def as_command(words: Sequence[str], commands: Collection[str]) -> list[str]:
    """Words of the command line, with `ask` before a question.

    A question is what has several words, of which the first is no command and no slip of one: `trian x.yaml` stays an
    unknown command, and `llama3-70b` alone is one too unless it is in the catalogue.
    """
    typed = list(words)
    first = next((word for word in typed if not word.startswith("-")), "")
    if not first or typed[0].startswith("-") or first in commands:
        return typed
    if len(first.split()) > 1:
        return ["ask", *typed]
    mistyped = difflib.get_close_matches(first, commands, n=1, cutoff=_LIKE_A_COMMAND)
    alone = len([word for word in typed if not word.startswith("-")]) == 1
    return typed if mistyped or (alone and not _names_a_model(first)) else ["ask", *typed]


def _names_a_model(word: str) -> bool:
    from windtunnel.catalog import store

    return store.stem_of("models", word) is not None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            '"llama3-70b on 64 h100"',
            '"serve llama3-8b on 2 a100 at 20 requests/s of 3k/300"',
            '"lora of qwen2.5 7b on a 4090" -v',
            '"cheapest way to serve llama3-70b at 10 requests/s" -o my.yaml',
        )
    )(ask)
