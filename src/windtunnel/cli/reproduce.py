"""`windtunnel reproduce`: run the experiments behind published claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.workshop import workshop_module


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            autocompletion=complete.papers,
            show_default=False,
            help="Papers, by folder, catalogue id or technique; absent: all.",
        ),
    ] = None,
    acts_on: Annotated[
        str | None,
        typer.Option(
            metavar="WORKLOAD",
            help="Only papers on training, serving, run (whole runs), cluster, learning or laws.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; absent: one a core.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write tables (Markdown), claims.json and figures there.")
    ] = None,
    gate: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Exit 4 when a smaller share of claims is within."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every claim and what is missing, of many papers too.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Name the papers and run none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Re-run the headline claims of papers.

    Prints published next to simulated figures, with low and high over what the paper leaves open. A miss is a result:
    it does not change the exit code unless --gate asks for it.
    """
    command = workshop_module("reproduce.command")
    chosen = command.folders(ids or (), acts_on)
    if show:
        command.list_papers(chosen, as_json)
        return
    command.run(chosen, jobs=jobs, out=out, gate=gate, full=full, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("reproduce", "reproduce zero_bubble --json", "reproduce --out out/claims --jobs 8"))(
        reproduce
    )
