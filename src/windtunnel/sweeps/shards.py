"""Files of a sweep: Parquet shards that appear whole or not at all; small ones are merged, damaged ones set aside.

A sweep writes a shard every few seconds, and DuckDB opens each of them for every question: a thousand small ones take
six seconds, thirty large ones a fifth of one. Shards are merged as they come. A merge counts from the moment that
`merged.json` names it, so that every row is there once, whatever dies in between and whoever reads.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.extras import extra

if TYPE_CHECKING:
    from windtunnel.sweeps.compute import Row

MERGED = "merged.json"
"""Merged shard → the shards whose rows it has, which no longer count."""
MERGE = 32
"""Shards of one level that become one of the next."""
LEVELS = 2
"""Times that a row is merged at most."""
TIDY = 8
"""Shards at the end of a sweep above which the small ones become one."""
_FIXED = {
    "cell": "VARCHAR",
    "verb": "VARCHAR",
    "status": "VARCHAR",
    "reason": "VARCHAR",
    "draw": "BIGINT",
    "attempt": "BIGINT",
    "version": "VARCHAR",
    "physics": "VARCHAR",
    "host": "VARCHAR",
    "started_at": "TIMESTAMP",
    "wall_s": "DOUBLE",
}


def duckdb() -> Any:
    """The module that reads and writes Parquet."""
    return extra("duckdb")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder outlast a power cut, where a folder can be opened (not on Windows)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_shard(rows: Sequence[Row], path: Path) -> None:
    """Write rows as one Parquet file, whole or not at all. Columns are typed by what they hold."""
    pd = extra("pandas", "sweep")
    names = list(dict.fromkeys(name for row in rows for name in row))
    frame = pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})
    casts = []
    for name in names:
        kind = _FIXED.get(name) or _kind([row.get(name) for row in rows], name.startswith("x."))
        quoted = name.replace('"', '""')
        casts.append(f'CAST("{quoted}" AS {kind}) AS "{quoted}"')
        if kind == "VARCHAR":
            frame[name] = [None if v is None else str(v) for v in frame[name]]
    with duckdb().connect() as connection:
        connection.register("given", frame)
        _copy(connection, f"SELECT {', '.join(casts)} FROM given", path)


def _copy(connection: Any, select: str, path: Path) -> None:
    """Write the rows of a query as one Parquet file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        connection.execute(f"COPY ({select}) TO {_quoted(temporary)} (FORMAT parquet, COMPRESSION zstd)")
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _quoted(path: Path) -> str:
    """A path as SQL writes a text."""
    return "'" + str(path).replace("'", "''") + "'"


def _kind(values: Sequence[Any], whole: bool) -> str:
    """Type of a column; whole numbers keep theirs on axes, and are DOUBLE in figures, which no shard may differ in."""
    held = [v for v in values if v is not None]
    if held and all(isinstance(v, bool) for v in held):
        return "BOOLEAN"
    if whole and held and all(isinstance(v, int) and not isinstance(v, bool) for v in held):
        return "BIGINT"
    if held and all(isinstance(v, int | float) and not isinstance(v, bool) for v in held):
        return "DOUBLE"
    return "VARCHAR" if held else "DOUBLE"


def whole_shard(path: Path) -> bool:
    """Whether a Parquet file has its end: magic bytes and a footer of a length that fits."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            if stream.read(4) != b"PAR1" or size < 12:
                return False
            stream.seek(-8, os.SEEK_END)
            length = int.from_bytes(stream.read(4), "little")
            return stream.read(4) == b"PAR1" and 0 < length <= size - 12
    except OSError:
        return False


def quarantine(folder: Path) -> tuple[str, ...]:
    """Set damaged shards and leftovers of writes aside, whose names it returns, and remove what merges left."""
    moved = []
    merged = _merged(folder)
    gone = {name for names in merged.values() for name in names}
    with duckdb().connect() as connection:
        for path in sorted((folder / "cells").iterdir()):
            if path.name in gone or (_level(path) and path.name not in merged):
                path.unlink()
            elif path.suffix != ".parquet" or not whole_shard(path) or not _readable(path, connection):
                (folder / "quarantine").mkdir(exist_ok=True)
                path.rename(folder / "quarantine" / path.name.lstrip("."))
                moved.append(path.name)
    return tuple(moved)


def _readable(path: Path, connection: Any) -> bool:
    """Whether DuckDB reads the footer of a shard."""
    try:
        connection.execute("SELECT count(*) FROM parquet_metadata(?)", [str(path)]).fetchall()
        return True
    except duckdb().Error:
        return False


def shards(folder: Path) -> list[str]:
    """Paths of the shards that count."""
    merged = _merged(folder)
    gone = {name for names in merged.values() for name in names}
    found = sorted((folder / "cells").glob("*.parquet"))
    return [str(p) for p in found if p.name not in gone and (p.name in merged or not _level(p))]


def merge(folder: Path, *, ended: bool = False) -> None:
    """Merge small shards, where there are many; to be called by the process that holds the sweep's lock.

    A merge that fails, on a full disk for one, leaves everything as it was.

    Args:
        folder: Of the sweep.
        ended: Whether no more shards come for now, so that a few small ones are merged too.
    """
    if ended and len(shards(folder)) <= TIDY:
        return
    for level, fewest in enumerate((2, TIDY) if ended else (MERGE,) * LEVELS):
        while len(own := [Path(p) for p in shards(folder) if _level(Path(p)) == level]) >= fewest:
            try:
                _merge(folder, own[:MERGE], level + 1)
            except (OSError, duckdb().Error):
                return


def _merge(folder: Path, sources: Sequence[Path], level: int) -> None:
    """Write the rows of some shards as one and have that one count."""
    if not (folder / MERGED).exists():
        write_whole(folder / MERGED, b"{}")
    path = folder / "cells" / f"merged-{level}-{time.time_ns()}.parquet"
    listed = ", ".join(_quoted(source) for source in sources)
    with duckdb().connect() as connection:
        _copy(connection, f"SELECT * FROM read_parquet([{listed}], union_by_name=true)", path)
    names = {source.name for source in sources}
    kept = {name: old for name, old in _merged(folder).items() if name not in names}
    there = {p.name for p in (folder / "cells").iterdir()}
    kept = {name: [one for one in old if one in there] for name, old in kept.items()}
    write_whole(folder / MERGED, json.dumps(kept | {path.name: sorted(names)}, indent=1).encode())
    for source in sources:
        source.unlink()


def _merged(folder: Path) -> dict[str, list[str]]:
    """Merged shard that counts → names of shards whose rows it has.

    Where `merged.json` was removed or damaged by others, every merged shard counts.
    """
    try:
        found = json.loads((folder / MERGED).read_text("utf-8"))
        return {str(name): [str(one) for one in names] for name, names in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {path.name: [] for path in (folder / "cells").glob("merged-*.parquet")}


def _level(path: Path) -> int:
    """How often the rows of a shard have been merged."""
    kind, _, rest = path.name.partition("-")
    level = rest.partition("-")[0]
    return int(level) if kind == "merged" and level.isdecimal() else 0
