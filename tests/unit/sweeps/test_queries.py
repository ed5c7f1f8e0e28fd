"""SQL over a sweep's cells: one SELECT, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from windtunnel.errors import BadInput
from windtunnel.files.checksums import sealed
from windtunnel.sweeps.shards import MERGED, shards
from windtunnel.sweeps.store import check_whole
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


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "link to nothing"])
def test_what_is_no_file_is_no_shard_whatever_its_name(tmp_path: Path, kind: str) -> None:
    (tmp_path / "cells").mkdir()
    shard = tmp_path / "cells" / "part-old.parquet"  # of a version that wrote no checksums into names
    if kind == "pipe":
        os.mkfifo(shard)
    elif kind == "folder":
        shard.mkdir()
    else:
        outside = tmp_path / "outside.parquet"
        outside.write_bytes(b"0" if kind == "link" else b"")
        shard.symlink_to(outside if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(BadInput, match="damaged"):
        check_whole(tmp_path, shards(tmp_path))


def test_shards_in_a_folder_that_is_a_link_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "cells").symlink_to(tmp_path / "outside")
    with pytest.raises(BadInput, match="link"):
        shards(tmp_path / "sweep")


def test_a_name_that_is_no_utf8_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="in UTF-8"):
        shards(tmp_path / os.fsdecode(b"sweep\xff"))


def test_a_list_of_merged_shards_that_is_no_file_counts_as_damaged(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    merged = tmp_path / "cells" / "merged-1-2.parquet"
    merged.write_bytes(b"0")
    (tmp_path / MERGED).write_bytes(sealed({}))
    assert shards(tmp_path) == []
    (tmp_path / MERGED).unlink()
    os.mkfifo(tmp_path / MERGED)
    assert shards(tmp_path) == [str(merged)]


def test_sql_that_is_no_text_is_refused() -> None:
    with duckdb.connect() as connection, pytest.raises(BadInput, match="half of a surrogate pair"):
        _check_reads_only(connection, "SELECT '\ud800'")
