"""Cells: what is computed once, and the hash that names it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = 1
"""Version of the rows that are stored; another version is another sweep."""
PHYSICS = (
    "specs", "catalog", "graph", "schedules", "program", "network", "cost", "engine", "parallel", "pricing",
    "techniques", "training", "serving", "runs", "clusters", "learning", "population", "laws", "programs",
    "planner", "splitmix64",
)  # fmt: skip
"""Packages whose code and data decide a result."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario under one verb and one draw."""

    id: str
    """32 hexadecimal digits of BLAKE2b over all that the result depends on."""
    settings: tuple[tuple[str, Any], ...]
    """(field, value) where it differs from the sweep's scenario."""
    draw: int | None
    """Number of the draw; None: the prediction itself."""


def cell_of(base: str, settings: tuple[tuple[str, Any], ...], draw: int | None) -> Cell:
    """A cell and its name.

    Args:
        base: Canonical JSON of verb, scenario, seed, schema and physics.
        settings: Fields that differ.
        draw: Its draw.
    """
    own = canonical({"settings": dict(settings), "draw": draw})
    return Cell(hashlib.blake2b(f"{base}\n{own}".encode(), digest_size=16).hexdigest(), settings, draw)


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


@cache
def physics() -> str:
    """Hash of the code and the data that decide results, 16 hexadecimal digits."""
    package = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=8)
    for path in _files(package):
        digest.update(str(path.relative_to(package)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(package: Path) -> Iterator[Path]:
    for name in PHYSICS:
        folder = package / name
        for suffix in ("*.py", "*.yaml", "*.json"):
            yield from sorted(p for p in folder.rglob(suffix) if "__pycache__" not in p.parts)
