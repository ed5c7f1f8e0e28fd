"""Which test executes which segment of which function: recorded once, kept in a database outside version control."""

from __future__ import annotations

import ast
import hashlib
import os
import sqlite3
import zlib
from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

import mutant_sites
import numpy as np
from mutant_import import PACKAGE, unit_hash

ROOT = PACKAGE.parents[1]
DATABASE = Path(os.environ.get("WINDTUNNEL_MUTANTS_INDEX") or ROOT / "out" / "mutants" / "index.db")

SCHEMA = """
create table if not exists segments(id integer primary key, file text, unit text, hash text, segment integer,
    unique(file, unit, hash, segment));
create table if not exists tests(id text, file text, file_hash text, jit integer, seconds real, segments blob,
    primary key(id, jit));
"""


def connect(path: Path = DATABASE) -> sqlite3.Connection:
    """The database, made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, timeout=120)
    database.executescript(SCHEMA)
    return database


def file_hash(path: Path) -> str:
    """16 hexadecimal digits of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def jitted_patterns() -> tuple[str, ...]:
    """Patterns of the files that hold jitted functions."""
    from mutant_coverage_patterns import JITTED

    return JITTED


def is_jitted(file: str, patterns: tuple[str, ...]) -> bool:
    """Whether a file below the package holds jitted functions."""
    return any(fnmatch(file, pattern) for pattern in patterns)


@dataclass(frozen=True)
class Recorded:
    """A test that passed when it was recorded."""

    id: str
    file: str
    seconds: float


class Index:
    """Tests by the segments that they execute."""

    def __init__(self, path: Path = DATABASE, jit: bool = True) -> None:
        database = connect(path)
        self.tests: list[Recorded] = []
        executed: list[np.ndarray] = []
        moved = _moved_tests()
        query = "select id, file, seconds, segments from tests where jit = ? order by id"
        for id, file, seconds, blob in database.execute(query, (int(jit),)):
            now = file if (ROOT / file).exists() else moved.get(Path(file).name)
            if now is not None:
                self.tests.append(Recorded(now + id.removeprefix(file), now, seconds))
                executed.append(np.frombuffer(zlib.decompress(blob), np.int32))
        self._rows = list(database.execute("select id, file, unit, hash, segment from segments"))
        lengths = [len(each) for each in executed]
        segments = np.concatenate(executed) if executed else np.zeros(0, np.int32)
        tests = np.repeat(np.arange(len(executed), dtype=np.int32), lengths)
        order = np.argsort(segments, kind="stable")
        self._segments, self._tests = segments[order], tests[order]

    def _executing(self, ids: list[int]) -> set[int]:
        """Tests that execute any of some segments."""
        found: set[int] = set()
        for id in ids:
            start, end = np.searchsorted(self._segments, [id, id + 1])
            found.update(self._tests[start:end].tolist())
        return found

    @cached_property
    def _by_hash(self) -> dict[tuple[str, str], list[tuple[int, str, int]]]:
        """(last part of a unit's name, hash) → segments: id, file, ordinal."""
        found = defaultdict(list)
        for id, file, unit, digest, segment in self._rows:
            found[unit.rsplit(".", 1)[-1], digest].append((id, file, segment))
        return found

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], list[int]]:
        """(file, unit) → segments of any version of it."""
        found = defaultdict(list)
        for id, file, unit, _, _ in self._rows:
            found[file, unit].append(id)
        return found

    @cached_property
    def _by_file(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for id, file, *_ in self._rows:
            found[file].append(id)
        return found

    def of_segment(self, file: str, unit: str, digest: str, segment: int) -> set[int]:
        """Tests that execute a segment; of a unit that was edited since, tests that executed any of its segments.

        A unit that moved to another file as it is counts as the same.
        """
        versions = self._by_hash.get((unit.rsplit(".", 1)[-1], digest), [])
        versions = [each for each in versions if each[1] == file] or versions
        if versions:
            return self._executing([id for id, _, ordinal in versions if segment in (ordinal, -1)])
        return self._executing(self._by_name.get((file, unit), []))

    def of_file(self, file: str, units: dict[str, str]) -> set[int]:
        """Tests that execute anything of a file; units: name → hash, for files that moved."""
        ids = list(self._by_file.get(file, []))
        if not ids:
            for unit, digest in units.items():
                ids += [id for id, _, _ in self._by_hash.get((unit.rsplit(".", 1)[-1], digest), [])]
        return self._executing(ids)


def _moved_tests() -> dict[str, str]:
    """Name of a test file → its path now, where the name is used once."""
    found = defaultdict(list)
    for path in (ROOT / "tests").rglob("test_*.py"):
        found[path.name].append(str(path.relative_to(ROOT)))
    return {name: paths[0] for name, paths in found.items() if len(paths) == 1}


def unit_hashes(source: str) -> dict[str, str]:
    """Unit → hash, for all units of a file."""
    return {name: unit_hash(unit) for name, unit in mutant_sites.units(ast.parse(source))}
