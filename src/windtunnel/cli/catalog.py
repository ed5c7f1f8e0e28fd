"""`windtunnel catalog`: whether the catalogue itself is sound, and models of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress

app = typer.Typer(help="Work on the catalogue itself.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Work on the catalogue itself."""


@app.command(epilog=examples("catalog check", "catalog check --json"))
def check(as_json: AsJson = False) -> None:
    """Check every entry: it loads, and each number has its source.

    Exits 4 when something is wrong.
    """
    import dataclasses

    from windtunnel import catalog
    from windtunnel.errors import GateFailed

    with progress("checking the catalogue"):
        problems = list(catalog.check())
    counts = {kind: len(getattr(catalog, kind)()) for kind in ("devices", "links", "clusters", "models")}
    if as_json:
        listed = [dataclasses.asdict(p) if dataclasses.is_dataclass(p) else str(p) for p in problems]
        print_json({"sound": not problems, "counts": counts, "problems": listed})
    else:
        console().print(", ".join(f"{number} {kind}" for kind, number in counts.items()))
        if not problems:
            console().print("sound: nothing is missing or inconsistent")
    if problems:
        raise GateFailed("\n".join(str(problem) for problem in problems))


@app.command(epilog=examples("catalog add config.json --name org/model", "catalog add DIR --json"))
def add(
    config: Annotated[Path, typer.Argument(metavar="FILE", help="A Hugging Face config.json, or its folder.")],
    name: Annotated[str, typer.Option(help="Name of the model; absent: what the file says, or the folder's.")] = "",
    source: Annotated[str, typer.Option(help="Where the file is from; absent: its path.")] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Add the line here; absent: to your own models."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add the model of a config.json to the catalogue.

    It becomes one line of a file of your own.

    From then on its name serves wherever a model is named. The file is models.jsonl in the folder windtunnel below
    XDG_CONFIG_HOME or ~/.config.
    """
    from windtunnel.catalog import released_models
    from windtunnel.importers.catalogue_line import catalogue_line

    line = catalogue_line(config, name or None, source or None)
    target = output or released_models.users_file()
    released_models.append(target, line)
    if as_json:
        print_json({"file": str(target), **line})
        return
    what = f"the dimensions of {line['like']}" if "like" in line else "dimensions of its own"
    console().print(f"{line['name']}: added to {target}, with {what}")
