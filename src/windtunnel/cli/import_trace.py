"""`windtunnel import TRACE`: a trace of requests as a commented `serving.traffic` section."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import typer

from windtunnel.cli.output import note, print_json
from windtunnel.files.writing import write_text

if TYPE_CHECKING:
    from windtunnel.importers.traces import Options

SUFFIXES = frozenset({".csv", ".json", ".jsonl", ".gz", ".txt", ".prom", ".metrics"})
"""Endings of files that may be traces; all others are configurations."""


def trace_format(file: Path, format: str) -> str:
    """The trace format of a file, empty when it is not a trace; what `--format` says goes first."""
    from windtunnel.importers.traces import TRACES, claims

    if format:
        return format if format in TRACES else ""
    if file.suffix not in SUFFIXES or not file.is_file():
        return ""
    found = claims(file)
    return "auto" if found or file.suffix in (".csv", ".jsonl", ".gz") else ""


def trace_options(time_unit: str | None, block_size: int | None, characters_per_token: float | None) -> Options:
    """What the command line says of a trace: unit of its times, tokens of a prefix hash, characters of a token.

    Raises:
        BadInput: the unit is neither s nor ms.
    """
    from windtunnel.errors import BadInput
    from windtunnel.importers.traces import Options

    if time_unit not in (None, "s", "ms"):
        raise BadInput(f"--time-unit = {time_unit}: must be s or ms")
    return Options(cast("Literal['s', 'ms'] | None", time_unit), block_size, characters_per_token, "--{}")


def import_trace(file: Path, format: str, options: Options, output: Path | None, as_json: bool) -> None:
    """Read a trace, fit laws to it and write the section."""
    from windtunnel.importers.traces import read_trace
    from windtunnel.serving.traffic import trace_to_yaml as section
    from windtunnel.serving.traffic.fit_distributions import fit

    trace = read_trace(file, format, options)
    for field, value, why in trace.assumed:
        note(f"assumed {field} = {value}: {why}")
    for count, why in trace.left_out:
        note(f"left out: {count} {why}")
    fitted = fit(trace)
    name = os.path.relpath(file, output.parent if output is not None else Path.cwd())
    text = section.text(trace, fitted, name, options)
    if output is not None:
        write_text(output, text)
        note(f"wrote {output}: put it into a scenario; next: windtunnel serve SCENARIO")
    if as_json:
        print_json(section.as_dict(trace, fitted, name, options))
    elif output is None:
        typer.echo(text, nl=False)
