"""Questions to a sweep in SQL: views over its shards, answered by DuckDB in memory.

`cells` has the latest attempt of each cell, `ok` those with an answer, `failures` counts the others by reason, `draws`
has quantiles over the draws of each combination, and `frontier` the cells that no other beats in all objectives.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from windtunnel.commands import in_sweeps
from windtunnel.errors import BadInput, Problem
from windtunnel.extras import extra
from windtunnel.files.writing import not_written, place_to_write
from windtunnel.sweeps.definition import Definition, read_manifest
from windtunnel.sweeps.shards import duckdb, shards
from windtunnel.sweeps.store import check_whole

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
TRIES = 10
"""Times that shards are read, where they are merged meanwhile."""


def connect(folder: Path, found: Sequence[str]) -> Any:
    """A DuckDB connection with the views of a sweep.

    Args:
        folder: Of the sweep.
        found: Its shards.

    Raises:
        BadInput: the folder is no sweep, or has no rows yet.
    """
    definition = read_manifest(folder)
    check_whole(folder, found)
    if not found:
        raise BadInput(Problem("DIR", "has no rows yet", str(folder)))
    connection = duckdb().connect()
    listed = ", ".join(_text(path) for path in found)
    connection.execute(f"CREATE VIEW attempts AS SELECT * FROM read_parquet([{listed}], union_by_name=true)")
    (attempts,) = connection.execute("SELECT max(attempt) FROM attempts").fetchone()
    latest = " QUALIFY row_number() OVER (PARTITION BY cell ORDER BY attempt DESC) = 1" if attempts > 1 else ""
    connection.execute(f"CREATE VIEW cells AS SELECT * FROM attempts{latest}")
    connection.execute("CREATE VIEW ok AS SELECT * FROM cells WHERE status = 'ok'")
    connection.execute(
        "CREATE VIEW failures AS SELECT status, reason, count(*) AS cells FROM cells WHERE status <> 'ok' "
        "GROUP BY ALL ORDER BY cells DESC"
    )
    _draws_view(connection, definition)
    _frontier_view(connection, definition)
    return connection


def query(folder: Path, sql: str, *, unlocked: bool = False) -> pd.DataFrame:
    """Rows of a query over the views, as a pandas frame.

    Args:
        folder: Of the sweep.
        sql: One `SELECT`. It reads the sweep's shards and no other file, writes none, loads no extension and changes no
            setting.
        unlocked: Allow any statement of DuckDB, which reads and writes what the user may.

    Raises:
        BadInput: the query cannot be read, is not allowed, or names what is not there.
    """

    def work(connection: Any, found: Sequence[str]) -> pd.DataFrame:
        if not unlocked:
            lock(connection, found, sql)
        extra("pandas", "sweep")
        frame: pd.DataFrame = connection.execute(sql).df()
        return frame

    try:
        return asked(folder, work)
    except duckdb().PermissionException as error:
        rule = f"{_first_lines(error)} (--unlocked lets SQL read and write files and load extensions)"
        raise BadInput(Problem("SQL", rule, sql)) from None
    except duckdb().Error as error:
        raise BadInput(Problem("SQL", _first_lines(error), sql)) from None


def asked(folder: Path, work: Callable[[Any, Sequence[str]], T]) -> T:
    """What some work on the views of a sweep gives; begun anew where shards were merged while it read them.

    Args:
        folder: Of the sweep.
        work: Is given a connection with the views, and the shards that these read.

    Raises:
        BadInput: the folder is no sweep, or has no rows yet.
    """
    for tries_left in reversed(range(TRIES)):
        there = shards(folder)
        connection = None
        try:
            connection = connect(folder, there)
            return work(connection, there)
        except duckdb().Error:  # what a file that is gone ends in depends on what the connection may do
            if not tries_left or shards(folder) == there:
                raise
        finally:
            if connection is not None:
                connection.close()
    raise AssertionError("the last try returns or raises")


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])


def lock(connection: Any, allowed: Sequence[str], sql: str) -> None:
    """Leave a connection nothing of the machine but some files, and no way to change that.

    Files could be written to as well, so that `sql` must be the one `SELECT` that follows.

    Raises:
        BadInput: there are several statements, or one that is no `SELECT`.
    """
    connection.execute(f"SET allowed_paths = [{', '.join(_text(path) for path in allowed)}]")
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    _check_reads_only(connection, sql)


def _check_reads_only(connection: Any, sql: str) -> None:
    """Refuse anything but one query.

    Raises:
        BadInput: there are several statements, or one that is no `SELECT`.
    """
    if any("\ud800" <= c <= "\udfff" for c in sql):
        raise BadInput(Problem("SQL", "must not hold half of a surrogate pair"))
    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if len(kinds) != 1 or kinds[0] != duckdb().StatementType.SELECT:
        told = ", ".join(kind.name for kind in kinds) or "nothing"
        rule = f"must be one SELECT, and is {told}; --unlocked allows every statement of DuckDB"
        raise BadInput(Problem("SQL", rule, sql))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


VIEWS = ("cells", "ok", "draws", "frontier", "failures")
_FORMATS = {".csv": "(FORMAT csv, HEADER)", ".parquet": "(FORMAT parquet, COMPRESSION zstd)", ".json": "(FORMAT json)"}


def export(folder: Path, target: Path, view: str) -> int:
    """Write a view to one file, whole or not at all; the number of its rows.

    Raises:
        BadInput: an unknown view or kind of file, or a file that cannot be written.
    """
    problems = []
    if view not in VIEWS:
        problems.append(Problem("--view", f"must be one of {', '.join(VIEWS)}", view))
    if target.suffix not in _FORMATS:
        problems.append(Problem("FILE", f"must end in {', '.join(_FORMATS)}", str(target)))
    if problems:
        raise BadInput(problems)
    target = place_to_write(target, "FILE").resolve()
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    form = _FORMATS[target.suffix]

    def work(connection: Any, _: Sequence[str]) -> int:
        (rows,) = connection.execute(f"COPY (SELECT * FROM {view}) TO {_text(str(temporary))} {form}").fetchone()
        return int(rows)

    try:
        rows = asked(folder, work)
        temporary.rename(target)
        return rows
    except (duckdb().Error, OSError) as error:
        raise not_written(target, "FILE", error) from None
    finally:
        temporary.unlink(missing_ok=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(connection: Any, view: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {view}").fetchall()}


def _draws_view(connection: Any, definition: Definition) -> None:
    axes = [_quoted(f"x.{name}") for name in definition.fields]
    kinds = _columns(connection, "ok")
    fixed = {
        "cell",
        "verb",
        "status",
        "reason",
        "draw",
        "attempt",
        "version",
        "physics",
        "host",
        "started_at",
        "wall_s",
    }
    figures = [n for n, kind in kinds.items() if kind == "DOUBLE" and n not in fixed and not n.startswith("x.")]
    parts = ['bool_and("memory_fits") AS "memory_fits"'] if "memory_fits" in kinds else []
    parts += [
        f"quantile_cont({_quoted(n)}, {q}) AS {_quoted(f'{n}_p{int(q * 100)}')}"
        for n in figures
        for q in (0.1, 0.5, 0.9)
    ]
    chosen = ", ".join([*axes, "count(*) AS draws", *parts])
    connection.execute(f"CREATE VIEW draws AS SELECT {chosen} FROM ok GROUP BY {', '.join(axes) or '()'}")


def _frontier_view(connection: Any, definition: Definition) -> None:
    """Cells that no other beats; of a sweep with draws, combinations by their medians: a lucky draw wins nothing."""
    view, middle = ("draws", "_p50") if definition.draws else ("ok", "")
    kinds = _columns(connection, view)
    goals = [goal for name in in_sweeps(definition.verb).objectives if (goal := _goal(connection, view, name, middle))]
    if not goals:
        connection.execute(f"CREATE VIEW frontier AS SELECT * FROM {view} WHERE false")
        return
    fits = "memory_fits" if "memory_fits" in kinds else "true"
    able = f"(SELECT * FROM {view} WHERE {fits} AND {goals[0]} IS NOT NULL)"
    if len(goals) == 1:
        best = f"(SELECT min({goals[0]}) FROM {able})"
        connection.execute(f"CREATE VIEW frontier AS SELECT * FROM {able} WHERE {goals[0]} = {best}")
        return
    a, b = goals
    best = f"coalesce(min({b}) OVER (ORDER BY {a}, {b} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 1e308)"
    before = f"(SELECT *, {best} AS before FROM {able})"
    if definition.draws:
        connection.execute(
            f"CREATE VIEW frontier AS SELECT * EXCLUDE (before) FROM {before} WHERE {b} < before ORDER BY {a}"
        )
        return
    chosen = f"(SELECT cell FROM {before} WHERE {b} < before)"  # chosen by three columns, before all are read
    connection.execute(f"CREATE VIEW frontier AS SELECT * FROM ok SEMI JOIN {chosen} USING (cell) ORDER BY {a}")


def _goal(connection: Any, view: str, name: str, middle: str) -> str:
    """Expression of a figure, from columns that hold any value; empty where none does."""
    kinds = _columns(connection, view)
    known = [c for c in kinds if c == f"{name}{middle}" or (c.startswith(f"{name}_") and c.endswith(middle))]
    known = [c for c in known if c == f"{name}{middle}"] or known
    known = [c for c in known if kinds[c] == "DOUBLE"]
    if not known:
        return ""
    counts = connection.execute(f"SELECT {', '.join(f'count({_quoted(c)})' for c in known)} FROM {view}").fetchone()
    held = [_quoted(c) for c, count in zip(known, counts, strict=True) if count]
    return f"least({', '.join(held)})" if len(held) > 1 else "".join(held)
