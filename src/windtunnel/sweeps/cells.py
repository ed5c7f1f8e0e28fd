"""Cells: what is computed once, and the hash that names it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from windtunnel.specs.settings import canonical

SCHEMA = 1
"""Version of the rows that are stored; another version is another sweep."""
PHYSICS = (
    "specs", "catalog", "graph", "schedules", "program", "network", "cost", "engine", "parallel", "pricing",
    "techniques", "training", "serving", "runs", "clusters", "learning", "population", "laws", "programs",
    "planner", "commands", "splitmix64",
)  # fmt: skip
"""Packages whose code and data decide a result."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario under one command and one draw."""

    id: str
    """32 hexadecimal digits of BLAKE2b over all that the result depends on."""
    settings: tuple[tuple[str, Any], ...]
    """(field, value) where it differs from the sweep's scenario."""
    draw: int | None
    """Number of the draw; None: the prediction itself."""


def cell_of(base: str, settings: tuple[tuple[str, Any], ...], draw: int | None) -> Cell:
    """A cell and its name.

    Args:
        base: Canonical JSON of command, scenario, seed, schema and physics.
        settings: Fields that differ.
        draw: Its draw.
    """
    own = canonical({"settings": dict(settings), "draw": draw})
    return Cell(hashlib.blake2b(f"{base}\n{own}".encode(), digest_size=16).hexdigest(), settings, draw)


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
