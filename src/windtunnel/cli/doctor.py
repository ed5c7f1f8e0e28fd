"""`windtunnel doctor`: what this installation has, and whether it works."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress

_NEEDED = ("numpy", "numba", "pydantic", "pyyaml", "rich", "scipy", "typer")
_EXTRAS = {
    "pandas": "tables of results, request traces in CSV: windtunnel[frames]",
    "vl-convert-python": "charts of reports and figures: windtunnel[report]",
    "duckdb": "sweeps: windtunnel[sweep]",
    "torch": "real steps and profiles of this machine (`calibrate`, `measure`), import of torch modules",
    "pyarrow": "request tables as Parquet, operator tables of AIConfigurator",
    "transformers": "`import --with transformers`: parameters of any model type",
}
"""Package → what it adds."""


def doctor(
    warm: Annotated[bool, typer.Option("--warm", help="Compile every kernel now, so that no later run waits.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is installed, and whether a small prediction is right.

    It says too whether compiled code can be kept.
    """
    from windtunnel import api

    with progress("compiling" if warm else "checking"):
        found = api.doctor(warm=warm, needed=_NEEDED, extras=tuple(_EXTRAS))
    if as_json:
        print_json(found)
    else:
        _print(found)
    if not all(one["ok"] for one in found["checks"]):
        from windtunnel.errors import WindtunnelError

        raise WindtunnelError("this installation does not work: " + "; ".join(_failed(found)))


def _failed(found: dict[str, Any]) -> list[str]:
    return [f"{one['name']}: {one['detail']}" for one in found["checks"] if not one["ok"]]


def _print(found: dict[str, Any]) -> None:
    out = console()
    out.print(f"windtunnel {found['version']}, Python {found['python']}, {found['cores']} cores, {found['memory']}")
    for one in found["checks"]:
        out.print(f"{'ok    ' if one['ok'] else 'FAILED'}  {one['name']}: {one['detail']}")
    out.print("packages  " + ", ".join(f"{name} {version}" for name, version in found["packages"].items()))
    for name, version in found["extras"].items():
        out.print(f"extra     {name} {version or 'not installed'}: {_EXTRAS[name]}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("doctor", "doctor --warm", "doctor --json"))(doctor)
