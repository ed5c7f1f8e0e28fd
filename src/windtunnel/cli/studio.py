"""`windtunnel studio`: a local web app to edit scenarios and see what they do."""

from __future__ import annotations

from typing import Annotated

import typer

from windtunnel.cli.options import examples


def studio(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|FOLDER|LINK]",
            help="A scenario, a sweep, a folder of them, or a link that was shared.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as a JSON document.")] = False,
) -> None:
    """Edit scenarios in the browser: predictions as you type.

    It shows plans side by side, sweeps, reports and the catalogue.
    """
    from windtunnel.studio.serve import serve

    serve(target, port, browser=browser, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "studio",
            "studio my.yaml",
            "studio 'http://127.0.0.1:4711/#/scenario?s=eJw…'",
            "studio runs --no-browser --port 8080",
        )
    )(studio)
