"""Step 1, read: the fields of a YAML or JSON file, or of a mapping, as plain data with the line of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.scenarios.fields import Fields, SourceMap
from windtunnel.scenarios.source import folder_of
from windtunnel.scenarios.yaml_text import MAX_BYTES, MAX_DEPTH, parse


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
    file = str(source)
    parsed = parse(_text_of(Path(source)), file)
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


def _text_of(path: Path) -> str:
    """The text of a file, of bounded size."""
    text = reading.read_text(path, most_bytes=MAX_BYTES)
    return _without_tabs(text) if path.suffix == ".json" else text


def _without_tabs(json_text: str) -> str:
    """JSON that YAML reads: it refuses tabs between tokens, and inside JSON strings they are not allowed."""
    return json_text.replace("\t", " ")


def _copied(value: Any, problems: list[Problem], depth: int = 0) -> Any:
    """A copy of plain data, with lists for tuples and text for keys."""
    if depth > MAX_DEPTH:
        if not problems:
            problems.append(Problem("", f"must have at most {MAX_DEPTH} levels"))
        return None
    if isinstance(value, dict):
        return {str(k): _copied(v, problems, depth + 1) for k, v in value.items()}
    if isinstance(value, str) and "\x00" in value:
        problems.append(Problem("", "must not hold the character NUL", value))
    return [_copied(v, problems, depth + 1) for v in value] if isinstance(value, list | tuple) else value
