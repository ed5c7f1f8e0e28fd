"""SQL of a page over a sweep: in a process of its own, which reads the sweep's shards and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, Problem

LIMIT_S = 10.0
MOST_ROWS = 5000


async def asked_sql(folder: Path, sql: str, temporary: str) -> dict[str, Any]:
    """Columns and rows of a query; whoever cancels it ends its process.

    Args:
        folder: of the sweep.
        sql: the query.
        temporary: folder for temporary files of the process.

    Raises:
        BadInput: the query cannot be run, does something that is not allowed, or takes too long.
    """
    question = json.dumps({"folder": str(folder), "sql": sql}).encode()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "windtunnel.studio.sql", env={**os.environ, "TMPDIR": temporary},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(question), LIMIT_S)
    except TimeoutError:
        raise BadInput(Problem("sql", f"took longer than {LIMIT_S:.0f} s")) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        found: dict[str, Any] = json.loads(output)
    except ValueError:
        raise BadInput(Problem("sql", "the process that runs queries ended")) from None
    if "problem" in found:
        raise BadInput(Problem("sql", found["problem"]))
    return found


def locked_query(folder: Path, sql: str) -> dict[str, Any]:
    """Run a query with all files but the sweep's shards, extensions and settings out of reach."""
    from windtunnel.sweeps.shards import duckdb
    from windtunnel.sweeps.views import asked, lock

    def work(connection: Any, found: Sequence[str]) -> dict[str, Any]:
        connection.execute("SET memory_limit = '1GB'")
        lock(connection, found, sql)
        cursor = connection.execute(sql)
        columns = [name for name, *_ in cursor.description or ()]
        rows = cursor.fetchmany(MOST_ROWS)
        return {"columns": columns, "rows": [[_plain(value) for value in row] for row in rows]}

    try:
        return asked(folder, work)
    except duckdb().Error as error:
        return {"problem": str(error).splitlines()[0]}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    return str(value)


def main() -> None:
    """Answer one question from standard input."""
    asked = json.loads(sys.stdin.read())
    try:
        found = locked_query(Path(asked["folder"]), asked["sql"])
    except BadInput as error:
        found = {"problem": str(error.problems[0])}
    sys.stdout.write(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
