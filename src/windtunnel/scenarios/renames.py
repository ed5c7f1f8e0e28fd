"""Older names of fields under their present ones, in the fields of a scenario and in the text of its file."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.scenarios.fields import Fields
from windtunnel.scenarios.yaml_text import MAX_BYTES, parse
from windtunnel.versions import SCENARIO_SCHEMA, older_fields, warn


def with_current_names(fields: Fields) -> Fields:
    """The fields under their present names; older ones are warned of."""
    problems: list[Problem] = []
    for one, path, place in list(older_fields(fields.data)):
        new = one.new.split(".")[-1]
        if new in place:
            problems.append(Problem(path, f"is the older name of {one.new}, which is stated too: state one of them"))
            continue
        warn(one)
        old = path.split(".")[-1]
        items = [(new if name == old else name, value) for name, value in place.items()]
        place.clear()
        place.update(items)
        beside = path[: len(path) - len(old)] + new
        for name, line in list(fields.lines.lines.items()):
            if name == path or name.startswith(f"{path}."):
                fields.lines.lines[beside + name[len(path) :]] = line
    return replace(fields, problems=(*fields.problems, *problems))


@dataclass(frozen=True, slots=True)
class Migrated:
    """A scenario's text under present names."""

    text: str
    changes: tuple[str, ...]
    """One sentence a change, with its line."""


def migrated(path: str | Path) -> Migrated:
    """The text of a scenario file with fields under their present names; comments, order and blanks stay.

    Raises:
        BadInput: the file is no scenario, or a name cannot be replaced in place.
    """
    text = reading.read_text(path, most_bytes=MAX_BYTES)
    parsed = parse(text, str(path))
    if parsed.problems or not isinstance(parsed.data, dict):
        raise BadInput(parsed.problems or Problem("", "must be a mapping of fields", file=str(path)))
    stated = parsed.data.get("schema_version", SCENARIO_SCHEMA)
    if stated != SCENARIO_SCHEMA or isinstance(stated, bool):
        later = isinstance(stated, int) and stated > SCENARIO_SCHEMA
        rule = "is of a later release than this one: install that" if later else f"must be {SCENARIO_SCHEMA}"
        where = parsed.lines.get("schema_version")
        raise BadInput(Problem("schema_version", rule, stated, file=str(path), line=where))
    lines, changes, wanted = text.splitlines(keepends=True), [], deepcopy(parsed.data)
    for one, at, place in list(older_fields(wanted)):
        old, new = at.split(".")[-1], one.new.split(".")[-1]
        if new in place:
            rule = f"is the older name of {one.new}, which is stated too: state one of them"
            raise BadInput(Problem(at, rule, file=str(path), line=parsed.lines.get(at)))
        place[new] = place.pop(old)
        number = parsed.lines.get(at, 0)
        changed = _replaced(lines[number - 1], old, new) if number else None
        if changed is None:
            raise BadInput(Problem(at, f"cannot be renamed in place: write {new}", file=str(path), line=number or None))
        lines[number - 1] = changed
        changes.append(f"line {number}: {at} → {at[: len(at) - len(old)]}{new}")
    out = "".join(lines)
    if parse(out, str(path)).data != wanted:
        raise BadInput(Problem("", "cannot be renamed in place: rename the fields by hand", file=str(path)))
    return Migrated(out, tuple(changes))


def _replaced(line: str, old: str, new: str) -> str | None:
    """A line with a key replaced that stands in it once; None where it does not."""
    pattern = re.compile(rf"(^[\s-]*|[{{,]\s*)([\"']?){re.escape(old)}\2(?=\s*:)")
    found = pattern.findall(line.split(" #", maxsplit=1)[0])
    return pattern.sub(rf"\g<1>\g<2>{new}\g<2>", line, count=1) if len(found) == 1 else None
