"""Packages that one command or one kind of file needs: extras of the distribution, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from windtunnel.errors import BadInput

EXTRAS = {"duckdb": "sweep", "pandas": "frames", "vl_convert": "report"}
"""Module → extra that installs it."""
USES = {
    "duckdb": "sweeps need DuckDB",
    "pandas": "tables (CSV traces, frames, sweeps) need pandas",
    "vl_convert": "charts (reports, figures, the studio) need vl-convert",
}
"""Module → what it is needed for."""


def extra(module: str, needed_by: str | None = None) -> Any:
    """An optional module, imported now.

    Args:
        module: its name, a key of `EXTRAS`.
        needed_by: extra that brings it together with others, where that is the better one to install.

    Raises:
        BadInput: it is not installed; names the extra.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
    raise BadInput(f"{USES[module]}, an extra: pip install 'windtunnel[{needed_by or EXTRAS[module]}]'")
