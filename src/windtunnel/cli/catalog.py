"""`windtunnel catalog check`: whether the catalogue itself is sound."""

from __future__ import annotations

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress

app = typer.Typer(help="Work on the catalogue itself.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Work on the catalogue itself."""


@app.command(epilog=examples("catalog check", "catalog check --json"))
def check(as_json: AsJson = False) -> None:
    """Check every entry: it loads, names what it refers to, and has a source and a date for each number.

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
