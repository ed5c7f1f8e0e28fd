"""`windtunnel schema`: the JSON Schema of scenario files, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import note, print_json, print_line
from windtunnel.files.writing import write_text


def schema(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[migrate FILE]", help="Write a scenario under present names.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.", show_default=False)
    ] = None,
    names: Annotated[
        bool, typer.Option("--names/--no-names", help="Offer the catalogue's models, devices and techniques.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of scenario files.

    It also brings a scenario to present names of fields.

    An editor completes and checks files with it. `schema migrate FILE` rewrites the file, comments kept, and says what
    changed; with `--output` it writes another one. The first line
    `# yaml-language-server: $schema=scenario.schema.json` of a scenario names the schema.
    """
    from windtunnel.api import scenario_schema

    if words:
        _migrate(words, output, as_json=as_json)
        return
    text = json.dumps(scenario_schema(names=names), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    if as_json:
        print_json({"file": str(output)})
        return
    note(f"schema  {output}; first line of a scenario: # yaml-language-server: $schema={output.name}")


def _migrate(words: list[str], output: Path | None, *, as_json: bool) -> None:
    from windtunnel.errors import BadInput, Problem
    from windtunnel.scenarios.renames import migrated
    from windtunnel.versions import SCENARIO_SCHEMA

    if words[0] != "migrate" or len(words) != 2:
        raise BadInput(Problem("schema", "must be `schema migrate FILE`, or without words", " ".join(words)))
    done = migrated(words[1])
    target = output or Path(words[1])
    if done.changes or output is not None:
        write_text(target, done.text)
    if as_json:
        print_json({"file": str(target), "schema_version": SCENARIO_SCHEMA, "changes": list(done.changes)})
        return
    for line in done.changes:
        print_line(line)
    note(f"{target}: {len(done.changes)} names changed; schema_version {SCENARIO_SCHEMA}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples("schema > scenario.schema.json", "schema -o scenario.schema.json", "schema migrate my.yaml")
    )(schema)
