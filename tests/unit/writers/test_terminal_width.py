"""What the terminal leaves out at a width, and what `--verbose` brings back."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from windtunnel.cli.tables import fields_table, listing
from windtunnel.views.view import Column, Section, Table, View
from windtunnel.writers.terminal import render

NAMES = ("accuracy", "dollars", "joules", "median", "latency", "tokens", "calls", "seconds")
WIDE = View(
    title="Candidates",
    sections=(
        Section(
            "Table",
            (
                Table(
                    (Column("model"), *(Column(name, numeric=True) for name in NAMES)),
                    (("m", *["12.3 ± 4.5"] * 8),) * 9,
                ),
            ),
        ),
    ),
    assumed=tuple((f"training.field_{i}", f"value {i}", "a reason of many words") for i in range(12)),
    citations=("Somebody 2024", "Somebody 2025"),
)


def _printed(width: int, *, everything: bool) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, color_system=None).print(render(WIDE, everything=everything))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_a_table_drops_columns_and_names_them(width: int) -> None:
    lines = _printed(width, everything=False)
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("  m ") for line in lines) == 9  # each row once
    head = next(line for line in lines if line.startswith("  model"))
    text = " ".join(" ".join(lines).split())
    left = text.partition("no room for ")[2].partition(": -v")[0].split(", ") if "no room for" in text else []
    assert [name for name in NAMES if name in head] + left == list(NAMES)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_listings_break_no_id_and_name_what_they_leave_out(width: int) -> None:
    heads = ("model", "family", "layers", "heads", "parameters")
    rows = [(f"somebody/a-model-of-{n}", "dense", n, "64/8 of them", f"{n}.5 B") for n in range(9)]
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, color_system=None).print(
        listing(heads, rows, drop=("heads", "layers", "family"))
    )
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    assert all(any(line.startswith(f"{row[0]} ") and row[-1] in line for line in lines) for row in rows)
    left = " ".join(lines).partition("no room for ")[2]
    assert [name for name in heads if name in lines[0] or name in left] == list(heads)


def test_verbose_shows_every_column_and_assumption() -> None:
    lines = _printed(80, everything=True)
    assert all(any(name in line for line in lines) for name in NAMES)
    assert "no room" not in "".join(lines) and sum("a reason" in line for line in lines) == 12


@pytest.mark.parametrize("width", [60, 80, 100, 400])
def test_assumptions_take_one_line(width: int) -> None:
    lines = _printed(width, everything=False)
    assert [line for line in lines if "reason" in line] == []
    (line,) = [line for line in lines if line.startswith("Assumed")]
    assert line == lines[-1] and len(line) <= width and line.endswith("-v says why")
    assert ("more" in line or "values" in line) == (width < 400)


def test_a_source_of_several_fields_stands_once() -> None:
    fields = {"bytes": 2**33, "pcie_bytes_per_s": 32e9, "tdp_w": 450.0, "kind": "gpu"}
    sheet, other = "a data sheet, table of everything, as of 2022-10", "another page"
    out = io.StringIO()
    Console(file=out, width=80, highlight=False, color_system=None).print(
        fields_table("a device", fields, {"bytes": sheet, "pcie_bytes_per_s": sheet, "tdp_w": other})
    )
    text = out.getvalue()
    assert "8 GiB" in text and text.count(sheet) == text.count(other) == 1
    assert text.count("[1]") == 3 and text.count("[2]") == 2
