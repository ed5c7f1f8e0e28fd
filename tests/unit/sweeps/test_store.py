"""Shards appear whole, damaged ones are set aside, and a folder has one writer and one sweep."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.sweeps.axes import read_axes
from windtunnel.sweeps.compute import head
from windtunnel.sweeps.definition import MANIFEST, MANIFEST_COPY, Definition, manifest_in, read_manifest
from windtunnel.sweeps.shards import connected, duckdb, shards, whole_shard, write_shard
from windtunnel.sweeps.store import Store, _first_line, done_cells
from windtunnel.sweeps.views import export, query

DEFINITION = Definition(
    verb="train", scenario={"model": "m", "plan": {"tp": 1}}, folder="/", axes=tuple(read_axes(["plan.tp=1,2,4"], []))
)


def rows(definition: Definition = DEFINITION, **figures: Any) -> list[dict[str, Any]]:
    """A row for each cell, as if it had been computed."""
    return [
        head(definition, cell, 1) | {"status": "ok", "wall_s": 0.1, "started_at": None, **figures}
        for cell in definition.cells()
    ]


def test_what_was_added_is_found_again(tmp_path: Path) -> None:
    with Store(tmp_path / "s", DEFINITION) as store:
        assert store.done() == {}
        store.add(rows(step_time_s=2.0))
    with Store(tmp_path / "s", DEFINITION) as store:
        assert {status for status, _ in store.done().values()} == {"ok"}
        assert set(store.done()) == {cell.id for cell in DEFINITION.cells()}


def test_a_torn_shard_is_set_aside_and_its_cells_are_missing(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        store.add(rows()[:2])
        store.flush()
        store.add(rows()[2:])
    torn = Path(shards(tmp_path)[0])
    torn.write_bytes(torn.read_bytes()[:-40])
    (tmp_path / "cells" / ".part-x.parquet.tmp").write_bytes(b"PAR1half")
    assert not whole_shard(torn)
    with Store(tmp_path, DEFINITION) as store:
        assert len(store.quarantined) == 2
        assert len(store.done()) == 1
    assert len(list((tmp_path / "quarantine").iterdir())) == 2


def test_a_shard_of_zeros_with_a_whole_end_is_set_aside(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        store.add(rows())
    shard = Path(shards(tmp_path)[0])
    content = bytearray(shard.read_bytes())
    content[4:-8] = bytes(len(content) - 12)
    shard.write_bytes(content)
    with Store(tmp_path, DEFINITION) as store:
        assert store.quarantined


def test_another_definition_is_refused_with_the_difference(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION):
        pass
    other = replace(
        DEFINITION, axes=tuple(read_axes(["plan.tp=1,2,8"], [])), scenario={"model": "n", "plan": {"tp": 1}}
    )
    with (
        pytest.raises(BadInput, match=r"plan.tp: 1 \| 2 \| 4 → 1 \| 2 \| 8; scenario.model: m → n"),
        Store(tmp_path, other),
    ):
        pass
    with Store(tmp_path, other, extend=True) as store:
        store.add(rows(other))
    assert len(done_cells(tmp_path)) == 3


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    with (
        Store(tmp_path, DEFINITION),
        pytest.raises(BadInput, match="is being written by process"),
        Store(tmp_path, DEFINITION),
    ):
        pass


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(BadInput, match="other things in it: thesis"), Store(tmp_path, DEFINITION):
        pass
    assert not (tmp_path / "manifest.json").exists()


def test_figures_that_one_shard_lacks_are_empty(tmp_path: Path) -> None:
    a, b, c = rows()
    write = tmp_path / "cells"
    with Store(tmp_path, DEFINITION):
        pass
    write_shard([a | {"step_time_s": 1}], write / "part-a.parquet")
    write_shard([b | {"step_time_s": 1.5, "bound_by": "gemm"}], write / "part-b.parquet")
    write_shard([c | {"status": "invalid", "reason": "no"}], write / "part-c.parquet")
    frame = query(tmp_path, 'SELECT "x.plan.tp", step_time_s, bound_by FROM cells ORDER BY 1')
    assert list(frame["x.plan.tp"]) == [1, 2, 4]
    assert frame["step_time_s"].tolist()[:2] == [1.0, 1.5]
    assert frame["step_time_s"].isna().tolist() == [False, False, True]
    assert query(tmp_path, "SELECT * FROM failures")["reason"].tolist() == ["no"]


def test_the_latest_attempt_counts(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        store.add([row | {"status": "crashed"} for row in rows()])
        store.flush()
        store.add([row | {"attempt": 2, "step_time_s": 3.0} for row in rows()[:1]])
    assert sorted(status for status, _ in done_cells(tmp_path).values()) == ["crashed", "crashed", "ok"]
    assert query(tmp_path, "SELECT count(*) n FROM ok")["n"].tolist() == [1]


def test_the_frontier_is_what_nothing_beats(tmp_path: Path) -> None:
    figures = [(3.0, 10.0), (2.0, 20.0), (2.5, 25.0)]
    with Store(tmp_path, DEFINITION) as store:
        store.add(
            [
                row | {"step_time_s": s, "peak_memory_reserved_bytes": m, "memory_fits": True}
                for row, (s, m) in zip(rows(), figures, strict=True)
            ]
        )
    assert query(tmp_path, "SELECT step_time_s FROM frontier")["step_time_s"].tolist() == [2.0, 3.0]


def test_a_lucky_draw_wins_no_frontier(tmp_path: Path) -> None:
    drawn = replace(DEFINITION, draws=3)
    seconds = {1: (5.0, 5.0, 1.0), 2: (4.0, 4.0, 4.0), 4: (6.0, 6.0, 6.0)}
    with Store(tmp_path, drawn) as store:
        store.add(
            [
                row | {"step_time_s": seconds[row["x.plan.tp"]][row["draw"]], "peak_memory_reserved_bytes": 1.0}
                for row in rows(drawn, memory_fits=True)
            ]
        )
    assert query(tmp_path, "SELECT * FROM frontier")["x.plan.tp"].tolist() == [2]


def test_the_frontier_of_algorithms_is_the_fastest_of_any(tmp_path: Path) -> None:
    learn = replace(DEFINITION, verb="learn")
    with Store(tmp_path, learn) as store:
        first, second, third = rows(learn)
        store.add(
            [first | {"time_to_target_s_a": 5.0}, second | {"time_to_target_s_a": 9.0, "time_to_target_s_b": 3.0}]
        )
        store.add([third | {"time_to_target_s_b": None}])
    assert query(tmp_path, "SELECT * FROM frontier")["x.plan.tp"].tolist() == [2]


def test_a_full_disk_is_one_line_and_loses_nothing_that_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = rows()
    with pytest.raises(BadInput, match=r"No space left on device\): the last 1 cells are not kept.* sweep resume"):
        with Store(tmp_path, DEFINITION) as store:
            store.add([first])
            store.flush()

            def full(handle: int) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            monkeypatch.setattr("windtunnel.sweeps.store.os.fsync", full)
            store.add([second])
    monkeypatch.undo()
    assert len(list((tmp_path / "cells").iterdir())) == 1, "half a shard is left behind"
    with Store(tmp_path, DEFINITION) as store:
        assert set(store.done()) == {first["cell"]} and not store.quarantined


def test_an_error_that_wraps_json_is_told_in_words(tmp_path: Path) -> None:
    told = 'IO Error: Async write failed: {"exception_type":"IO","errno":"28"}'
    assert _first_line(OSError(told)) == "No space left on device"
    assert _first_line(ValueError("one\ntwo")) == "one"


def test_a_query_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        store.add(rows())
    with pytest.raises(BadInput, match="nothing"):
        query(tmp_path, "SELECT nothing FROM cells")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.json"])
def test_a_view_is_written_to_a_file(tmp_path: Path, name: str) -> None:
    with Store(tmp_path / "s", DEFINITION) as store:
        store.add(rows())
    assert export(tmp_path / "s", tmp_path / name, "ok") == 3
    assert (tmp_path / name).stat().st_size > 0


def test_an_unknown_view_and_kind_of_file_are_told_together(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        store.add(rows())
    with pytest.raises(BadInput) as caught:
        export(tmp_path, tmp_path / "a.xlsx", "best")
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '{other}'",
        "SELECT * FROM read_csv('{other}')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM parquet_metadata('{other}')",
        "COPY (SELECT 1) TO '{new}'",
        "COPY cells TO '{shard}'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{new}'",
        "ATTACH '{new}' AS there",
        "EXPORT DATABASE '{new}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/etc/hostname']",
        "RESET lock_configuration",
        "CREATE TABLE mine AS SELECT 1",
        "DROP VIEW cells",
        "SELECT 1; COPY (SELECT 1) TO '{new}'",
        "SELECT * FROM 'https://example.org/a.parquet'",
        "SELECT * FROM duckdb",
    ],
)
def test_a_query_reaches_nothing_but_its_sweep(tmp_path: Path, sql: str) -> None:
    folder, other, new = tmp_path / "s", tmp_path / "other.csv", tmp_path / "new"
    with Store(folder, DEFINITION) as store:
        store.add(rows(step_time_s=1.0))
    (shard,) = (folder / "cells").iterdir()
    other.write_text("a,b\n1,2\n")
    before = shard.read_bytes()
    with pytest.raises(BadInput):
        query(folder, sql.format(other=other, new=new, shard=shard))
    assert not new.exists() and shard.read_bytes() == before


def test_a_query_may_be_unlocked(tmp_path: Path) -> None:
    folder, other = tmp_path / "s", tmp_path / "other.csv"
    with Store(folder, DEFINITION) as store:
        store.add(rows(step_time_s=1.0))
    other.write_text("a,b\n1,2\n")
    found = query(folder, f"SELECT a, count(*) AS n FROM cells, read_csv('{other}') GROUP BY a", unlocked=True)
    assert found["a"].tolist() == [1]


@pytest.mark.parametrize(
    "sql", ["DESCRIBE cells", "WITH a AS (FROM ok) SELECT count(*) FROM a", "FROM draws", "SUMMARIZE ok;"]
)
def test_a_locked_query_may_be_any_question(tmp_path: Path, sql: str) -> None:
    with Store(tmp_path, DEFINITION) as store:
        store.add(rows(step_time_s=1.0))
    assert len(query(tmp_path, sql))


def flip(path: Path, at: float = 0.5) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 1
    path.write_bytes(content)


def link(path: Path) -> None:
    """Put a link to a file in its place."""
    elsewhere = path.parents[1].with_name("elsewhere")
    path.replace(elsewhere)
    path.symlink_to(elsewhere)


def folder_instead(path: Path) -> None:
    """Put a folder in the place of a file."""
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("at", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_bit_that_flips_anywhere_in_a_shard_is_seen(at: float, tmp_path: Path) -> None:
    with Store(tmp_path / "s", DEFINITION) as store:
        store.add(rows(step_time_s=2.0))
    flip(Path(shards(tmp_path / "s")[0]), at)
    for ask in (done_cells, lambda folder: query(folder, "SELECT * FROM cells")):
        with pytest.raises(BadInput, match=r"is damaged .*sweep resume"):
            ask(tmp_path / "s")
    with Store(tmp_path / "s", DEFINITION) as store:
        assert len(store.quarantined) == 1
        assert store.done() == {}


@pytest.mark.parametrize("damage", [link, folder_instead])
def test_a_shard_that_is_no_file_is_set_aside(damage: Any, tmp_path: Path) -> None:
    with Store(tmp_path / "s", DEFINITION) as store:
        store.add(rows())
    damage(Path(shards(tmp_path / "s")[0]))
    with pytest.raises(BadInput, match="is damaged"):
        done_cells(tmp_path / "s")
    with Store(tmp_path / "s", DEFINITION) as store:
        assert len(store.quarantined) == 1
        assert store.done() == {}


@pytest.mark.parametrize("damage", [flip, link, lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_a_damaged_manifest_is_restored_from_its_copy(damage: Any, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store(folder, DEFINITION) as store:
        store.add(rows())
    damage(folder / MANIFEST)
    assert read_manifest(folder) == DEFINITION
    with Store(folder, DEFINITION) as store:
        assert len(store.done()) == 3
    assert manifest_in(folder / MANIFEST) == DEFINITION


def test_without_any_whole_manifest_the_first_command_goes_on(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        store.add(rows())
    flip(tmp_path / MANIFEST)
    flip(tmp_path / MANIFEST_COPY)
    with pytest.raises(BadInput, match="start the sweep again with its first command"):
        read_manifest(tmp_path)
    with Store(tmp_path, DEFINITION) as store:
        assert set(store.quarantined) == {MANIFEST, MANIFEST_COPY}
        assert len(store.done()) == 3


def test_folders_of_earlier_versions_without_checksums_are_read(tmp_path: Path) -> None:
    with Store(tmp_path, DEFINITION) as store:
        store.add(rows())
    shard = Path(shards(tmp_path)[0])
    shard.rename(shard.with_name("part-old-1-2-0.parquet"))
    (tmp_path / MANIFEST_COPY).unlink()
    (tmp_path / MANIFEST).write_text(json.dumps(DEFINITION.manifest()))
    assert len(done_cells(tmp_path)) == 3
    with Store(tmp_path, DEFINITION) as store:
        assert (store.quarantined, len(store.done())) == ((), 3)


def test_an_export_that_does_not_fit_leaves_the_older_file(tmp_path: Path) -> None:
    with Store(tmp_path / "s", DEFINITION) as store:
        store.add(rows())
    (tmp_path / "gone").mkdir()
    target = tmp_path / "gone" / "cells.csv"
    target.mkdir()
    with pytest.raises(BadInput, match="cannot be written"):
        export(tmp_path / "s", target, "cells")
    assert [p.name for p in target.parent.iterdir()] == ["cells.csv"]


@pytest.mark.parametrize("name", ["cells", "quarantine", "lock"])
def test_nothing_is_written_through_a_link_in_the_folder(name: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    if name == "lock":
        elsewhere.write_text("of somebody")
    else:
        elsewhere.mkdir()
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).symlink_to(elsewhere)
    with pytest.raises(BadInput, match="cannot be"), Store(tmp_path / "s", DEFINITION):
        pytest.fail("it was opened")
    assert elsewhere.read_text() == "of somebody" if name == "lock" else not list(elsewhere.iterdir())


@pytest.mark.slow
def test_a_signal_while_rows_are_read_or_written_is_an_interrupt() -> None:
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    sender = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises(KeyboardInterrupt), connected() as connection:
            connection.execute("SET memory_limit = '300MB'")
            sender.start()
            connection.execute("SELECT count(*) FROM range(1000000000) t(i) WHERE hash(i) % 7 = 3").fetchall()
    finally:
        sender.cancel()
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_after_a_shard_is_there_does_not_write_its_rows_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windtunnel.sweeps import shards as files

    def interrupted(_: Path) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Store(tmp_path, DEFINITION) as store:
        monkeypatch.setattr(files, "sync_folder", interrupted)
        store.add(rows(step_time_s=2.0))
        store.flush()
    assert len(query(tmp_path, "SELECT * FROM attempts")) == len(list(DEFINITION.cells()))


def test_a_signal_that_duckdb_wraps_is_a_signal_and_the_rows_are_kept_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may come while DuckDB calls back into Python, which makes an error of its own of it."""
    wrapped = duckdb().InvalidInputException("Traceback (most recent call last):\n  …\nKeyboardInterrupt")

    def interrupted(*_: Any) -> None:
        monkeypatch.undo()
        raise wrapped

    with pytest.raises(KeyboardInterrupt), Store(tmp_path, DEFINITION) as store:
        store.add(rows())
        monkeypatch.setattr("windtunnel.sweeps.store.write_shard", interrupted)
        store.flush()
    assert len(done_cells(tmp_path)) == 3
