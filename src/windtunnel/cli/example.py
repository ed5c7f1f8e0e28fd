"""`windtunnel example`: scenarios that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import check_new, check_targets, console, note, print_json


def _names(incomplete: str) -> list[str]:
    from windtunnel.example_files import scenarios

    return [name for name in scenarios() if name.startswith(incomplete)]


def example(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Example to show; absent: list all.", autocompletion=_names, show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """List, show or write the example scenarios.

    Their names work wherever a scenario file does.
    """
    from windtunnel.errors import BadInput, Problem, nearest_name
    from windtunnel.example_files import about, find, scenarios

    if name is None:
        if output is not None:
            raise BadInput("--output: name the example to write")
        found = {one: about(file) for one, file in scenarios().items()}
        if as_json:
            print_json({"examples": [{"name": one, "about": text} for one, text in found.items()]})
        for one, text in found.items() if not as_json else ():
            width = console().width
            line = f"{one:44} {text}"
            console().print(line if len(line) <= width else line[: width - 2] + " …", markup=False, no_wrap=True)
        return
    file = find(name)
    if file is None:
        near = nearest_name(name, scenarios())
        raise BadInput(Problem("example", "is none of those that `windtunnel example` lists", name, near))
    text = file.read_text("utf-8")
    if output is not None:
        from windtunnel.files.writing import write_text

        check_targets(output)
        check_new(output, force=force)
        write_text(output, text)
        note(f"wrote {output}")
    if as_json:
        print_json({"name": name, "scenario": text})
    elif output is None:
        typer.echo(text, nl=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples("example", "example llama3-70b-64xh100", "example serving/llama3-70b-4xh100 -o my.yaml")
    )(example)
