"""`windtunnel import FILE.py:NAME`: a PyTorch module as the operators that it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import typer

from windtunnel.cli.output import check_targets, note, print_json
from windtunnel.files.writing import write_text

_TARGET = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


def module_target(argument: Path) -> tuple[Path, str] | None:
    """File and name of an argument `FILE.py:NAME`, None where it has another form."""
    match = _TARGET.fullmatch(str(argument))
    return None if match is None else (Path(match[1]), match[2])


def import_module(file: Path, name: str, inputs: Sequence[str], output: Path | None, as_json: bool) -> None:
    """Trace a module and write its parameters, FLOPs and operators."""
    from windtunnel.importers.torch_file import as_dict, trace_file

    check_targets(output, inputs=[file])
    graph = trace_file(file, name, inputs)
    data = as_dict(graph)
    if abs(graph.disagreement) > 1e-3:
        note(f"FLOPs differ by {graph.disagreement:+.1%} from PyTorch's own counter")
    if as_json and output is None:
        print_json(data)
        return
    import yaml

    text = yaml.safe_dump({"module": f"{file}:{name}"} | data, sort_keys=False, allow_unicode=True)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    if as_json:
        print_json(data)
    note(f"wrote {output}")
