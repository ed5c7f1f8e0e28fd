"""`windtunnel import`: a Hugging Face `config.json` as a model that scenarios can use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import check_targets, note, print_json


def import_(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="Hugging Face config.json.", show_default=False)],
    name: Annotated[str, typer.Option(help="Name of the model; absent: what the file says, or the folder's.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a Hugging Face config.json into a model block."""
    from windtunnel.errors import BadInput
    from windtunnel.importers.hf_config import read_hf_config

    check_targets(output, inputs=[config])
    if output is not None and output.exists() and not force:
        raise BadInput(f"{output}: exists already; --force overwrites it")
    read = read_hf_config(config, name or None)
    spec = read.model
    data = spec.model_dump(mode="json", exclude_defaults=True)
    data = {"name": spec.name, "family": spec.family} | data
    for field, value, why in read.assumed:
        note(f"assumed {field} = {value}: {why}")
    if as_json and output is None:
        print_json(data)
        return
    import yaml

    text = yaml.safe_dump({"model": data}, sort_keys=False, allow_unicode=True)
    if output is None:
        typer.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    if as_json:
        print_json(data)
    note(f"wrote {output}")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("import", epilog=examples("import config.json", "import config.json --name my-model -o model.yaml"))(
        import_
    )
