"""The folder of a sweep: one writer, Parquet shards that appear whole or not at all, and what is damaged set aside.

```
DIR/manifest.json            what the sweep is, with its checksum; manifest.copy.json holds the same
DIR/cells/part-*.parquet     rows; written as .tmp, flushed to disk, then renamed to a name that holds their checksum
DIR/cells/merged-*.parquet   rows of many shards (`windtunnel.sweeps.shards`)
DIR/merged.json              which shards those are
DIR/quarantine/              files that are damaged, or links
DIR/lock                     held by the one process that writes
```
"""

from __future__ import annotations

import glob
import os
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, Problem
from windtunnel.files.checksums import sealed
from windtunnel.files.locking import lock_alone
from windtunnel.files.reading import NO_LINK
from windtunnel.sweeps.definition import MANIFEST, MANIFEST_COPY, Definition, differences, manifest_in, read_manifest
from windtunnel.sweeps.shards import (
    MERGE,
    MERGED,
    connected,
    damaged,
    duckdb,
    merge,
    quarantine,
    set_aside,
    shards,
    write_shard,
    write_whole,
)

if TYPE_CHECKING:
    from windtunnel.sweeps.compute import Row

_OWN = {"cells", "lock", "quarantine", MANIFEST, MANIFEST_COPY, MERGED}
FLUSH_ROWS = 1000
FLUSH_S = 5.0


@dataclass(slots=True)
class Store:
    """A sweep's folder, open for writing: a context that holds its lock."""

    folder: Path
    definition: Definition
    extend: bool = False
    """Whether another definition may be put in the place of the one that the folder has."""
    quarantined: tuple[str, ...] = ()
    _rows: list[Row] = field(default_factory=list)
    _flushed: float = 0.0
    _shard: int = 0
    _lock: Any = None

    def __enter__(self) -> Store:
        """Make the folder or check it, take its lock, and set damaged shards aside.

        Raises:
            BadInput: another process writes to it, it holds another sweep, or something else.
        """
        try:
            (self.folder / "cells").mkdir(parents=True, exist_ok=True)
            for name in ("cells", "quarantine"):
                if (self.folder / name).is_symlink():
                    raise OSError(f"its folder {name} is a link")
        except OSError as error:
            raise BadInput(Problem("--out", f"cannot be made: {error.strerror or error}", str(self.folder))) from None
        self._take_lock()
        try:
            self._check_definition()
            self.quarantined += quarantine(self.folder)
        except OSError as error:
            self._lock.close()
            raise BadInput(Problem("--out", f"cannot be written: {error.strerror}", str(self.folder))) from None
        except BaseException:
            self._lock.close()
            raise
        self._flushed = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is left, merge small shards, and give the lock back.

        Raises:
            BadInput: rows cannot be written; not where that was reported already.
        """
        try:
            self.flush()
            if kind is None:
                merge(self.folder, ended=True)
        except BadInput:
            if not isinstance(error, BadInput):
                raise
        finally:
            self._lock.close()

    def done(self) -> dict[str, tuple[str, int]]:
        """Cell → status and attempt of its latest row."""
        return done_cells(self.folder)

    def add(self, rows: Sequence[Row]) -> None:
        """Keep rows; they are on disk within `FLUSH_S` seconds or `FLUSH_ROWS` rows."""
        self._rows.extend(rows)
        if len(self._rows) >= FLUSH_ROWS or time.monotonic() - self._flushed > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write all kept rows as one shard.

        Raises:
            BadInput: the disk is full or cannot be written.
        """
        self._flushed = time.monotonic()
        if not self._rows:
            return
        stem = f"part-{socket.gethostname()}-{os.getpid()}-{time.time_ns()}-{self._shard}"
        try:
            write_shard(self._rows, self.folder / "cells" / f"{stem}.parquet")
        except (OSError, duckdb().Error) as error:
            if KeyboardInterrupt.__name__ in str(error):  # DuckDB wraps a signal that comes while it reads rows
                raise KeyboardInterrupt from None
            rows = len(self._rows)
            raise BadInput(
                Problem(
                    "--out",
                    f"cannot be written ({_first_line(error)}): the last {rows:,} cells are not kept, all before are; "
                    f"make room, then: windtunnel sweep resume {self.folder}",
                    str(self.folder),
                )
            ) from None
        finally:  # a signal may come after the file is there: its rows must not be written again
            if any((self.folder / "cells").glob(f"{glob.escape(stem)}.*.parquet")):
                self._shard += 1
                self._rows = []
        if self._shard % MERGE == 0:
            merge(self.folder)

    def _take_lock(self) -> None:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_LINK
            handle = os.fdopen(os.open(self.folder / "lock", flags, 0o666), "a+", errors="replace")
        except OSError as error:
            raise BadInput(Problem("--out", f"cannot be written: {error.strerror}", str(self.folder))) from None
        try:
            lock_alone(handle)
        except OSError:
            handle.seek(0)
            owner = handle.read().strip() or "another process"
            handle.close()
            rule = f"is being written by {owner}; wait for it, or stop it and resume"
            raise BadInput(Problem("--out", rule, str(self.folder))) from None
        self._lock = handle
        try:
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {socket.gethostname()}")
            handle.flush()
        except OSError:
            pass  # the name of the owner is for messages alone

    def _check_definition(self) -> None:
        path = self.folder / MANIFEST
        self._set_damaged_manifests_aside()
        if path.exists() and not self.extend:
            lines = differences(read_manifest(self.folder), self.definition)
            if lines:
                told = "; ".join(lines[:6]) + ("; …" if len(lines) > 6 else "")
                rule = f"holds another sweep ({told}): take another folder, or add this one's cells with --extend"
                raise BadInput(Problem("--out", rule, str(self.folder)))
            return
        foreign = [p.name for p in self.folder.iterdir() if p.name not in _OWN and p.suffix != ".tmp"]
        if not path.exists() and foreign:
            raise BadInput(Problem("--out", f"is a folder with other things in it: {foreign[0]}", str(self.folder)))
        for name in (MANIFEST, MANIFEST_COPY):
            write_whole(self.folder / name, sealed(self.definition.manifest()))

    def _set_damaged_manifests_aside(self) -> None:
        """Move damaged manifests away, and write those that one whole one can restore."""
        whole = None
        for name in (MANIFEST, MANIFEST_COPY):
            path = self.folder / name
            if not os.path.lexists(path):
                continue
            try:
                whole = manifest_in(path)
            except BadInput:
                set_aside(path, self.folder)
                self.quarantined += (name,)
        if whole is not None:
            for name in (MANIFEST, MANIFEST_COPY):
                if not (self.folder / name).exists():
                    write_whole(self.folder / name, sealed(whole.manifest()))


def _first_line(error: Exception) -> str:
    """What went wrong, of an error of the system or of DuckDB, which may wrap one in JSON."""
    told = getattr(error, "strerror", None) or str(error)
    number = re.search(r'"errno":\s*"?(\d+)', told)
    return os.strerror(int(number[1])) if number else " ".join(told.split("\n")[0].split())


def done_cells(folder: Path) -> dict[str, tuple[str, int]]:
    """Cell → status and attempt of its latest row.

    Raises:
        BadInput: a shard is damaged.
    """
    found = shards(folder)
    check_whole(folder, found)
    if not found:
        return {}
    try:
        with connected() as connection:
            rows = connection.execute(
                "SELECT cell, arg_max(status, attempt), max(attempt) "
                "FROM read_parquet(?, union_by_name=true) GROUP BY cell",
                [found],
            ).fetchall()
    except duckdb().Error as error:
        raise _damaged(folder, str(error).splitlines()[0]) from None
    return {cell: (status, int(attempt)) for cell, status, attempt in rows}


def check_whole(folder: Path, found: Sequence[str]) -> None:
    """Refuse shards that are damaged.

    Raises:
        BadInput: one is, or is a link.
    """
    if bad := damaged(found):
        raise _damaged(folder, f"{len(bad)} of {len(found)} files, {Path(bad[0]).name} for one")


def _damaged(folder: Path, what: str) -> BadInput:
    rule = f"is damaged ({what}): windtunnel sweep resume sets that aside and computes its cells again"
    return BadInput(Problem("DIR", rule, str(folder)))
