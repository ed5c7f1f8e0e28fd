"""SQL over a sweep's cells: one SELECT, and nothing else."""

from __future__ import annotations

import pytest

from windtunnel.errors import BadInput
from windtunnel.sweeps.views import _check_reads_only

duckdb = pytest.importorskip("duckdb")


@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT 1 AS n;", "WITH x AS (SELECT 1) SELECT * FROM x"])
def test_one_select_is_allowed(sql: str) -> None:
    with duckdb.connect() as connection:
        _check_reads_only(connection, sql)


@pytest.mark.parametrize("sql", ["", "SELECT 1; SELECT 2", "CREATE TABLE x (n INTEGER)", "COPY (SELECT 1) TO 'x.csv'"])
def test_anything_else_is_refused(sql: str) -> None:
    with duckdb.connect() as connection, pytest.raises(BadInput, match="must be one SELECT"):
        _check_reads_only(connection, sql)
