"""Plain data of a scenario with dotted fields set, and its canonical text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def canonical(value: Any) -> str:
    """JSON with sorted keys and without spaces: equal values have equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def with_settings(data: Mapping[str, Any], settings: Mapping[str, Any] | tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """A scenario's mapping with dotted fields set; what is not touched is shared with the original.

    Raises:
        KeyError: a path goes through a value that has no fields; its text names the path.
    """
    out = dict(data)
    for field, value in settings.items() if isinstance(settings, Mapping) else settings:
        *above, last = field.split(".")
        at: Any = out
        for part in above:
            inner = _item(at, part, field)
            copied = _copied(inner)
            if copied is None:
                raise KeyError(field)
            _set(at, part, copied, field)
            at = copied
        _set(at, last, value, field)
    return out


def _copied(value: Any) -> Any:
    """A copy of a mapping or list, an empty mapping for nothing, None for anything else."""
    if value is None:
        return {}
    return type(value)(value) if isinstance(value, dict | list) else None


def _item(at: Any, part: str, field: str) -> Any:
    if isinstance(at, list):
        if not part.isdigit() or int(part) >= len(at):
            raise KeyError(field)
        return at[int(part)]
    return at.get(part)


def _set(at: Any, part: str, value: Any, field: str) -> None:
    if isinstance(at, list):
        if not part.isdigit() or int(part) >= len(at):
            raise KeyError(field)
        at[int(part)] = value
    else:
        at[part] = value
