"""Files of a sweep: Parquet shards that appear whole or not at all; small ones are merged, damaged ones set aside.

A sweep writes a shard every few seconds, and DuckDB opens each of them for every question: a thousand small ones take
six seconds, thirty large ones a fifth of one. Shards are merged as they come. A merge counts from the moment that
`merged.json` names it, so that every row is there once, whatever dies in between and whoever reads.

The name of a shard ends in the first digits of its SHA-256, and the JSON files of a sweep hold their own, so that any
damage is seen. Files of earlier versions have none: they are read, and every value of a shard is unpacked once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, Problem
from windtunnel.extras import extra
from windtunnel.files.checksums import sealed, unsealed
from windtunnel.files.reading import NO_LINK, read_text
from windtunnel.files.writing import whole_file

if TYPE_CHECKING:
    from windtunnel.sweeps.compute import Row

MERGED = "merged.json"
"""Merged shard → the shards whose rows it has, which no longer count."""
_SUM = re.compile(r"\.([0-9a-f]{32})\.parquet$")
"""End of the name of a shard, with its checksum."""
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


@contextlib.contextmanager
def connected() -> Iterator[Any]:
    """A DuckDB connection. DuckDB makes an error of its own of a signal that comes while it works.

    Raises:
        KeyboardInterrupt: such a signal came.
    """
    try:
        with duckdb().connect() as connection:
            yield connection
    except (RuntimeError, duckdb().InterruptException) as error:
        if isinstance(error, duckdb().InterruptException) or str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut."""
    with whole_file(path) as stream:
        stream.write(content)
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


def write_shard(rows: Sequence[Row], path: Path) -> Path:
    """Write rows as one Parquet file, whole or not at all. Columns are typed by what they hold.

    Returns:
        Its path: the checksum is added to the name.
    """
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
    with connected() as connection:
        connection.register("given", frame)
        return _copy(connection, f"SELECT {', '.join(casts)} FROM given", path)


def _copy(connection: Any, select: str, path: Path) -> Path:
    """Write the rows of a query as one Parquet file, whole or not at all, its checksum in its name."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        connection.execute(f"COPY ({select}) TO {_quoted(temporary)} (FORMAT parquet, COMPRESSION zstd)")
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
            found = hashlib.file_digest(stream, "sha256").hexdigest()[:32]
        target = path.with_name(f"{path.stem}.{found}.parquet")
        temporary.rename(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return target


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


def whole_shard(path: Path, connection: Any = None) -> bool:
    """Whether a shard is a file that holds what was written; of one without a checksum, whether all of it is readable.

    Args:
        path: the shard.
        connection: with which one without a checksum is read; absent: a new one.
    """
    try:
        handle = os.open(path, os.O_RDONLY | NO_LINK)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return False
            if told := _SUM.search(path.name):
                return hashlib.file_digest(stream, "sha256").hexdigest().startswith(told[1])
    except OSError:
        return False
    try:
        with contextlib.nullcontext(connection) if connection is not None else connected() as reader:
            reader.execute("SELECT count(COLUMNS(*)) FROM read_parquet(?)", [str(path)]).fetchall()
        return True
    except duckdb().Error:
        return False


def damaged(paths: Sequence[str]) -> list[str]:
    """Those of some shards that are damaged or no files; of those without a checksum no more is known unread."""
    return [path for path in paths if os.path.lexists(path) and not _looks_whole(path)]


def _looks_whole(path: str) -> bool:
    return whole_shard(Path(path)) if _SUM.search(path) else stat.S_ISREG(os.lstat(path).st_mode)


def set_aside(path: Path, folder: Path) -> None:
    """Move a damaged file of a sweep into its folder `quarantine`; what was moved there before stays."""
    (folder / "quarantine").mkdir(exist_ok=True)
    target = folder / "quarantine" / path.name.lstrip(".")
    if os.path.lexists(target):
        target = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    path.rename(target)


def quarantine(folder: Path) -> tuple[str, ...]:
    """Set damaged shards and leftovers of writes aside, whose names it returns, and remove what merges left."""
    moved = []
    for path in [p for p in folder.iterdir() if p.name.startswith(".") and p.suffix == ".tmp"]:
        path.unlink()
    known = _named(folder)
    merged = known or {}
    gone = {name for names in merged.values() for name in names}
    with connected() as connection:
        for path in sorted((folder / "cells").iterdir()):
            if known is not None and (path.name in gone or (_level(path) and path.name not in merged)):
                path.unlink()
            elif path.suffix != ".parquet" or not whole_shard(path, connection):
                set_aside(path, folder)
                moved.append(path.name)
        if known is None:
            moved += _restore(folder, connection)
    return tuple(moved)


def _restore(folder: Path, connection: Any) -> list[str]:
    """Write `merged.json` anew where it is damaged: shards whose rows are all in one of a higher level do not count."""
    if os.path.lexists(folder / MERGED):
        set_aside(folder / MERGED, folder)
    there = sorted((folder / "cells").glob("*.parquet"), key=_level, reverse=True)
    kept: list[Path] = []
    for path in there:
        higher = [str(p) for p in kept if _level(p) > _level(path)]
        if higher:
            sql = "SELECT cell, attempt FROM read_parquet(?) EXCEPT SELECT cell, attempt FROM read_parquet(?)"
            if not connection.execute(f"SELECT count(*) FROM ({sql})", [str(path), higher]).fetchone()[0]:
                path.unlink()
                continue
        kept.append(path)
    write_whole(folder / MERGED, sealed({path.name: [] for path in kept if _level(path)}))
    return [MERGED]


def shards(folder: Path) -> list[str]:
    """Paths of the shards that count.

    Raises:
        BadInput: their folder is a link, or has a name that DuckDB does not take.
    """
    try:
        os.path.abspath(folder).encode()
    except UnicodeEncodeError:
        raise BadInput(Problem("DIR", "must have a name in UTF-8", str(folder))) from None
    if (folder / "cells").is_symlink():
        raise BadInput(Problem("DIR", "has its shards in a link; name the folder itself", str(folder)))
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
        write_whole(folder / MERGED, sealed({}))
    if damaged([str(source) for source in sources]):
        raise OSError("a shard is damaged: the next process that resumes sets it aside")
    path = folder / "cells" / f"merged-{level}-{time.time_ns()}.parquet"
    listed = ", ".join(_quoted(source) for source in sources)
    with connected() as connection:
        path = _copy(connection, f"SELECT * FROM read_parquet([{listed}], union_by_name=true)", path)
    names = {source.name for source in sources}
    kept = {name: old for name, old in _merged(folder).items() if name not in names}
    there = {p.name for p in (folder / "cells").iterdir()}
    kept = {name: [one for one in old if one in there] for name, old in kept.items()}
    write_whole(folder / MERGED, sealed(kept | {path.name: sorted(names)}))
    for source in sources:
        source.unlink()


def _merged(folder: Path) -> dict[str, list[str]]:
    """Merged shard that counts → names of shards whose rows it has.

    Where `merged.json` was removed or damaged by others, every merged shard counts.
    """
    found = _named(folder)
    return found if found is not None else {path.name: [] for path in (folder / "cells").glob("merged-*.parquet")}


def _named(folder: Path) -> dict[str, list[str]] | None:
    """What `merged.json` says; None where it is damaged, or missing though shards were merged."""
    path = folder / MERGED
    if not os.path.lexists(path):
        return None if any((folder / "cells").glob("merged-*.parquet")) else {}
    try:
        found = {} if path.is_symlink() else unsealed(read_text(path))
        return None if path.is_symlink() else {str(name): [str(one) for one in names] for name, names in found.items()}
    except (OSError, ValueError, AttributeError, TypeError, BadInput):
        return None


def _level(path: Path) -> int:
    """How often the rows of a shard have been merged."""
    kind, _, rest = path.name.partition("-")
    level = rest.partition("-")[0]
    return int(level) if kind == "merged" and level.isdecimal() else 0
