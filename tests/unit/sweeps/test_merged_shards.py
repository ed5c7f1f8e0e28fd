"""Small shards become larger ones: the same rows, whatever dies in between and whoever reads meanwhile."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import merging_writer
import pytest

from windtunnel.sweeps import shards as files
from windtunnel.sweeps.axes import read_axes
from windtunnel.sweeps.compute import head
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.shards import MERGED, duckdb, merge, shards, write_shard
from windtunnel.sweeps.store import Store, done_cells
from windtunnel.sweeps.views import query

DEFINITION = Definition(
    verb="train", scenario={"model": "m"}, folder="/", axes=tuple(read_axes(["training.global_batch=1..150:+1"], []))
)


def rows(definition: Definition = DEFINITION) -> list[dict[str, Any]]:
    """A row for each cell; some have a column that others lack."""
    return [
        head(definition, cell, 1)
        | {"status": "ok", "wall_s": 0.1, "started_at": None, "step_time_s": float(i)}
        | ({"bound_by": "gemm"} if i % 3 else {})
        for i, cell in enumerate(definition.cells())
    ]


def held(folder: Path) -> list[str]:
    """Cells of all rows that count, each as often as it is there."""
    found = shards(folder)
    with duckdb().connect() as connection:
        sql = "SELECT cell FROM read_parquet(?, union_by_name=true) ORDER BY cell"
        return [cell for (cell,) in connection.execute(sql, [found]).fetchall()]


def test_a_sweep_of_many_small_shards_ends_with_a_few(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        for row in rows():
            store.add([row])
            store.flush()
        between = len(shards(tmp_path))
    assert between < 50
    assert len(shards(tmp_path)) <= 12
    assert sorted(p.name for p in (tmp_path / "cells").iterdir()) == [Path(p).name for p in shards(tmp_path)]
    assert held(tmp_path) == sorted(cell.id for cell in DEFINITION.cells())
    assert set(done_cells(tmp_path)) == {cell.id for cell in DEFINITION.cells()}
    found = query(tmp_path, "SELECT sum(step_time_s) AS s, count(bound_by) AS b FROM ok")
    assert found["s"][0] == sum(range(150))
    assert found["b"][0] == 100


def test_few_shards_stay_as_they_are(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        for row in rows()[:5]:
            store.add([row])
            store.flush()
    assert len(shards(tmp_path)) == 5
    assert not (tmp_path / MERGED).exists()


def test_a_merge_that_cannot_be_written_leaves_all_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with Store(tmp_path, DEFINITION) as store:
        monkeypatch.setattr(files, "write_whole", full)  # the merged shard is there, and cannot be made to count
        for row in rows()[:40]:
            store.add([row])
            store.flush()
    assert len(shards(tmp_path)) == 40
    assert len(held(tmp_path)) == 40


def test_a_lost_list_of_merges_loses_no_row(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        for row in rows():
            store.add([row])
            store.flush()
    (tmp_path / MERGED).unlink()
    assert held(tmp_path) == sorted(cell.id for cell in DEFINITION.cells())
    (tmp_path / MERGED).write_text("[torn")
    with Store(tmp_path, DEFINITION) as store:
        assert len(store.done()) == 150


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_every_row_once(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    draw, first = random.Random(5), 0
    for _ in range(6):
        command = [sys.executable, str(merging_writer.__file__), str(tmp_path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            last, enough = first, first + draw.randint(6, 12)
            while last < enough:
                last = int(process.stdout.readline())
            time.sleep(draw.uniform(0.0, 0.03))
            process.kill()
            last = max([last, *map(int, process.stdout)])
        found = held(tmp_path)
        assert len(found) == len(set(found))
        assert {f"c{n}" for n in range(last + 1)} <= set(found) <= {f"c{n}" for n in range(last + 2)}
        first = len(found)


def test_questions_asked_while_shards_are_merged_are_answered(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        for row in rows()[:40]:
            store.add([row])
            store.flush()
    counts: set[int] = set()
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            counts.add(int(query(tmp_path, "SELECT count(*) AS n FROM cells")["n"][0]))

    reader = threading.Thread(target=ask)
    reader.start()
    for i in range(12):
        for n in range(3):
            write_shard([rows()[40 + 3 * i + n]], tmp_path / "cells" / f"part-{i}-{n}.parquet")
        merge(tmp_path, ended=True)
    ended.set()
    reader.join()
    assert counts
    assert counts <= set(range(40, 77))
    assert len(held(tmp_path)) == 76


def test_a_damaged_list_of_merged_shards_repeats_and_loses_nothing(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        for row in rows():
            store.add([row])
            store.flush()
    first = Path(next(p for p in shards(tmp_path) if "merged-" in p))
    with duckdb().connect() as connection:  # as if the process had died before it removed a source
        (cell,) = connection.execute("SELECT cell FROM read_parquet(?) LIMIT 1", [str(first)]).fetchone()
    write_shard([row for row in rows() if row["cell"] == cell], tmp_path / "cells" / "part-left.parquet")
    (tmp_path / MERGED).write_text((tmp_path / MERGED).read_text().replace("merged-", "merked-", 1))
    with Store(tmp_path, DEFINITION) as store:
        assert store.quarantined == (MERGED,)
        assert len(store.done()) == 150
    assert held(tmp_path) == sorted(c.id for c in DEFINITION.cells())
