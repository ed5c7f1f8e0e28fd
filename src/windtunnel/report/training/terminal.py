"""What tables of the terminal share."""

from __future__ import annotations

from rich.table import Table

from windtunnel.writers.terminal import bar

__all__ = ["bar", "figure_grid"]


def figure_grid() -> Table:
    """An empty table of names and values."""
    return Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
