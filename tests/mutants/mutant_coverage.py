"""A pytest plugin that records which segments of the product each test executes.

    python -m pytest -p mutant_coverage -m "not slow" …

With `NUMBA_DISABLE_JIT=1` it records the jitted files alone, whose tests are then stopped after `LIMIT_S`.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mutant_index
import numpy as np
import pytest
from mutant_coverage_patterns import JITTED
from mutant_import import Recorder

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
LIMIT_S = 6
recorder = Recorder(lambda file: mutant_index.is_jitted(file, JITTED) == JIT)
recorder.install()


class _Rows:
    """Finished tests that are not written yet."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, np.ndarray]] = []
        self.ids: dict[tuple[str, str, str, int], int] = {}

    def write(self) -> None:
        database = mutant_index.connect()
        try:
            with database:
                for id, seconds, hits in self.rows:
                    self._write(database, id, seconds, hits)
        finally:
            database.close()
        self.rows.clear()

    def _write(self, database: sqlite3.Connection, id: str, seconds: float, hits: np.ndarray) -> None:
        keys = [recorder.keys[hit] for hit in hits.tolist()]
        for key in keys:
            if key not in self.ids:
                database.execute("insert or ignore into segments(file, unit, hash, segment) values (?, ?, ?, ?)", key)
                query = "select id from segments where file = ? and unit = ? and hash = ? and segment = ?"
                self.ids[key] = database.execute(query, key).fetchone()[0]
        blob = zlib.compress(np.sort(np.array([self.ids[key] for key in keys], np.int32)).tobytes(), 1)
        file = id.split("::", maxsplit=1)[0]
        digest = mutant_index.file_hash(mutant_index.ROOT / file)
        database.execute("replace into tests values (?, ?, ?, ?, ?, ?)", (id, file, digest, int(JIT), seconds, blob))


_pending = _Rows()
_failed: set[str] = set()


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out tests of files that are recorded as they are."""
    database = mutant_index.connect()
    known = {
        (id, digest) for id, digest in database.execute("select id, file_hash from tests where jit = ?", (int(JIT),))
    }
    database.close()
    digests: dict[str, str] = {}
    fresh = []
    for item in items:
        file = item.nodeid.split("::")[0]
        digests.setdefault(file, mutant_index.file_hash(Path(item.path)))
        if (item.nodeid, digests[file]) not in known:
            fresh.append(item)
    items[:] = fresh
    recorder.hits[:] = bytes(len(recorder.hits))


def _stop(*_: Any) -> None:
    raise TimeoutError("too slow without machine code")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    start = time.perf_counter()
    if not JIT:
        signal.signal(signal.SIGALRM, _stop)
        signal.alarm(LIMIT_S)
    try:
        result = yield
    finally:
        if not JIT:
            signal.alarm(0)
        found = np.flatnonzero(np.frombuffer(recorder.hits, np.uint8))
        recorder.hits[:] = bytes(len(recorder.hits))
        if item.nodeid not in _failed:
            _pending.rows.append((item.nodeid, time.perf_counter() - start, found))
        if len(_pending.rows) >= 100:
            _pending.write()
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    _pending.write()
