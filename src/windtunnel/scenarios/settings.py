"""Step 2, set: values of `--set path.to.field=value` in the place of what a file states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from windtunnel.errors import Problem
from windtunnel.scenarios.fields import Fields
from windtunnel.scenarios.yaml_text import parse
from windtunnel.versions import current_path

_INDEX = re.compile(r"\[(\d+)\]")
"""`pools[0]`, which may stand for `pools.0`."""


def with_settings(fields: Fields, overrides: Sequence[str]) -> Fields:
    """The fields with every override; those that cannot be set are among the problems."""
    wrong: list[Problem] = []
    for text in overrides:
        path, equals, value_text = text.partition("=")
        path = current_path(_INDEX.sub(r".\1", path.strip()))
        if not equals or not all(path.split(".")):
            wrong.append(Problem("--set", "must be path.to.field=value", text))
            continue
        fields.lines.overridden.add(path)
        parsed = parse(value_text)
        if parsed.problems:
            wrong += [
                replace(p, field=f"{path}.{p.field}".strip("."), file=f"--set {path}", line=None)
                for p in parsed.problems
            ]
        elif not _put(fields.data, path, parsed.data if value_text.strip() else None):
            wrong.append(Problem(path, "no such field: its parent is not a mapping or list with that entry"))
    return replace(fields, problems=(*fields.problems, *wrong))


def _put(data: dict[str, Any], path: str, value: Any) -> bool:
    """Put a value at a dotted path; mappings that the path needs are made. False where there is no such place."""
    *parents, last = path.split(".")
    target: Any = data
    for part, after in zip(parents, path.split(".")[1:], strict=True):
        if isinstance(target, dict):
            empty: Any = [{}] if after == "0" else {}  # the first entry of a list that the file leaves out
            target = target.setdefault(part, empty)
        else:
            target = target[int(part)] if _is_entry(target, part) else None
    if isinstance(target, dict):
        target[last] = value
        return True
    if _is_entry(target, last):
        target[int(last)] = value
        return True
    return False


def _is_entry(target: Any, part: str) -> bool:
    """Whether a part of a path is an index of the list that it is applied to."""
    return isinstance(target, list) and part.isdigit() and int(part) < len(target)
