"""Plain tables for lists and records. Rich is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType


def listing(heads: Sequence[str], rows: Sequence[Sequence[object]], *, drop: Sequence[str] = ()) -> RenderableType:
    """A row an entry, whose first cell never breaks; columns that hold numbers only are right-aligned.

    Args:
        heads: of the columns.
        rows: their cells.
        drop: heads of the columns that a narrow terminal leaves out, the first one first; without any the last ones.
    """
    from windtunnel.views.view import Column, Table
    from windtunnel.writers.terminal import table_of

    order = list(reversed(drop or heads[:0:-1]))
    columns = []
    for at, head in enumerate(heads):
        cells = [str(row[at]) for row in rows]
        numeric = bool(cells) and all(not cell or cell.replace(",", "").replace(".", "").isdigit() for cell in cells)
        columns.append(Column(head, numeric, order.index(head) + 1 if head in order else 0, whole=at == 0))
    return table_of(Table(tuple(columns), tuple(tuple(str(cell) for cell in row) for row in rows)))


def fields_table(title: str, values: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> RenderableType:
    """One record: field, value, and the number of its source, which stands below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(style="cyan", overflow="fold")
    table.add_column(style="dim", no_wrap=True)
    marks = dict[str, str]()
    for field, value in values.items():
        source = (sources or {}).get(field) or (sources or {}).get(field.split(".")[0], "")
        mark = marks.setdefault(source, f"[{len(marks) + 1}]") if source else ""
        table.add_row(field, Text(_shown(field, value)), Text(mark))
    below = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False, style="dim")
    for source, mark in marks.items():
        below.add_row(Text(mark), Text(source))
    shown: list[RenderableType] = [Text(title, style="bold"), table]
    return Group(*shown, *((Text(), below) if marks else ()))


def _shown(field: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join("×".join(map(str, v)) if isinstance(v, (list, tuple)) else str(v) for v in value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    leaf = field.rsplit(".", 1)[-1]
    if "flop_per_s" in field:
        return f"{value / 1e12:,.4g} TFLOP/s"
    if leaf.endswith("bytes_per_s"):
        return f"{value / 1e9:,.4g} GB/s"
    if leaf == "bytes" or leaf.endswith("_bytes"):
        return f"{value / 2**30:,.4g} GiB" if value >= 2**30 else f"{value / 2**20:,.4g} MiB"
    if leaf.endswith("_hz"):
        return f"{value / 1e6:,.0f} MHz"
    if leaf.endswith("_s"):
        return f"{value * 1e6:,.4g} µs"
    if leaf.endswith("_w"):
        return f"{value:,.0f} W"
    if "parameters" in leaf:
        return f"{value:,.0f}"
    return f"{value:g}" if isinstance(value, float) else str(value)
