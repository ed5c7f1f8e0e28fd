"""`windtunnel schema`: the JSON Schema of scenario files, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import note, print_json
from windtunnel.files.writing import write_text


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.", show_default=False)
    ] = None,
    names: Annotated[
        bool, typer.Option("--names/--no-names", help="Offer the catalogue's models, devices and techniques.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of scenario files: an editor completes and checks them with it.

    The first line `# yaml-language-server: $schema=scenario.schema.json` of a scenario names it.
    """
    from windtunnel.api import scenario_schema

    text = json.dumps(scenario_schema(names=names), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    if as_json:
        print_json({"file": str(output)})
        return
    note(f"schema  {output}; first line of a scenario: # yaml-language-server: $schema={output.name}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("schema > scenario.schema.json", "schema -o scenario.schema.json"))(schema)
