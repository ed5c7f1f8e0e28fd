"""`windtunnel mcp`: tools for programs that speak the Model Context Protocol."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, examples


def mcp(
    root: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder whose files tools may read; absent: none.")
    ] = None,
    allow_write: Annotated[bool, typer.Option("--allow-write", help="Tools may also write below --root.")] = False,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Tools may also run Python files below --root that scenarios name.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP on this machine, with a token, not stdio.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --http; 0: any free port.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Serve predictions, plans and sweeps as tools (MCP).

    They are tools of the Model Context Protocol; the catalogue is one of them.
    """
    from windtunnel.errors import BadInput, Problem
    from windtunnel.files.scope import confine
    from windtunnel.mcp.server import NAMES, build, workers_of
    from windtunnel.mcp.tools import Tools

    if as_json:
        from windtunnel.cli.output import print_json

        print_json({"tools": list(NAMES)})
        return
    problems = []
    if root is not None and not root.is_dir():
        problems.append(Problem("--root", "must be a folder", str(root)))
    if allow_write and root is None:
        problems.append(Problem("--allow-write", "needs --root: the folder that may be written to"))
    if allow_code and root is None:
        problems.append(Problem("--allow-code", "needs --root: the folder whose Python files may run"))
    if problems:
        raise BadInput(problems)
    tools = Tools(root=root.resolve() if root else None, allow_write=allow_write, allow_code=allow_code)
    confine(tools.scope)
    with tempfile.TemporaryDirectory(prefix="windtunnel-mcp-") as folder:
        tools.jobs.folder = folder
        workers = workers_of(tools)

        def ended(*_: object) -> None:
            workers.kill()
            tools.jobs.close()
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(128 + signal.SIGTERM)

        signal.signal(signal.SIGTERM, ended)
        try:
            server = build(tools, workers)
            if http:
                from windtunnel.mcp.http import serve

                serve(server, port)
            else:
                server.run("stdio")
        finally:
            workers.kill()
            tools.jobs.close()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples("mcp", "mcp --root . --allow-write", "mcp --http --port 8765"),
    )(mcp)
