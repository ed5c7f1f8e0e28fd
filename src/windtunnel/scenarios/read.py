"""Step 1, read: the fields of a YAML or JSON file, or of a mapping, as plain data with the line of each."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.scenarios.fields import Fields, SourceMap
from windtunnel.scenarios.source import file_of, folder_of
from windtunnel.scenarios.yaml_text import MAX_BYTES, MAX_DEPTH, not_text, parse


def read(source: str | Path | dict[str, Any]) -> Fields:
    """The fields of a file or of a mapping.

    Raises:
        BadInput: the file cannot be read, is not plain YAML or JSON, or is not a mapping of fields.
    """
    folder = folder_of(source)
    if isinstance(source, dict):
        problems: list[Problem] = []
        data = _copied(source, problems)
        if problems:
            raise BadInput(problems)
        return Fields(data=data, folder=folder, lines=SourceMap())
    path = file_of(source)
    file = str(path)
    parsed = parse(_text_of(path), file)
    if parsed.problems:
        raise BadInput(parsed.problems)
    if not isinstance(parsed.data, dict):
        problem = Problem("", "must be a mapping of fields", parsed.data, file=file, line=parsed.lines.get(""))
        raise BadInput(problem)
    return Fields(data=parsed.data, folder=folder, lines=SourceMap(file, parsed.lines))


def read_mapping(path: str | Path) -> dict[str, Any]:
    """The fields of a scenario file as plain data, unchecked but for YAML itself.

    Raises:
        BadInput: the file cannot be read or is not a mapping of fields.
    """
    return read(path).data


def parse_mapping(text: str, file: str) -> dict[str, Any]:
    """YAML text as plain data under the rules that files obey: no tags, no repeated keys, bounded size and aliases."""
    if len(text) > MAX_BYTES:
        raise BadInput(Problem("", _TOO_LONG, file=file))
    parsed = parse(text, file)
    if parsed.problems:
        raise BadInput(parsed.problems)
    if not isinstance(parsed.data, dict):
        rule = "must hold a scenario (a mapping of fields)"
        raise BadInput(Problem("", rule, file=file, line=parsed.lines.get("")))
    return parsed.data


def lines_of(file: str | Path) -> dict[str, int]:
    """Dotted field path → line of a YAML or JSON file; empty where it cannot be read. For problems found later."""
    try:
        return parse(_without_tabs(reading.read_text(file))).lines
    except BadInput:
        return {}


_TOO_LONG = f"must be at most {MAX_BYTES} bytes"
_TOO_DEEP = f"must have at most {MAX_DEPTH} levels"


def _text_of(path: Path) -> str:
    """The text of a file, of bounded size."""
    text = reading.read_text(path, most_bytes=MAX_BYTES)
    return _without_tabs(text) if path.suffix == ".json" else text


def _without_tabs(json_text: str) -> str:
    """JSON that YAML reads: it refuses tabs between tokens, and inside JSON strings they are not allowed."""
    return json_text.replace("\t", " ")


def _copied(value: Any, problems: list[Problem], path: str = "", depth: int = 0) -> Any:
    """A copy of plain data, with lists for tuples and text for keys; what is no plain data is a problem."""
    if depth > MAX_DEPTH:
        if not any(problem.rule == _TOO_DEEP for problem in problems):
            problems.append(Problem("", _TOO_DEEP))
        return None
    if isinstance(value, dict):
        copied = {}
        for key, inner in value.items():
            name = _copied(key, problems, path) if isinstance(key, str) else str(key)
            copied[name] = _copied(inner, problems, f"{path}.{name}".strip("."), depth + 1)
        return copied
    if isinstance(value, list | tuple):
        return [_copied(inner, problems, f"{path}.{i}".strip("."), depth + 1) for i, inner in enumerate(value)]
    if isinstance(value, str):
        if why := not_text(value):
            problems.append(Problem(path, why, value))
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a number of NumPy
        value = value.item()
    if isinstance(value, PurePath):
        return str(value)
    if value is not None and not isinstance(value, bool | int | float):
        kinds = "text, numbers, true, false, null, lists and mappings"
        problems.append(Problem(path, f"must be plain data ({kinds}), not {type(value).__name__}"))
        return None
    return value
