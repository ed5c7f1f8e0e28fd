"""Layouts that nccl-tests and rccl-tests print, and what becomes of them in logs and pastes. Times are made up."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.calibration.nccl_printed import Printed, read_nccl_tests
from windtunnel.errors import BadInput

NOW = """# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=23003
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on      nodeA device  0 [0000:0f:00] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid   4712 on      nodeA device  1 [0000:15:00] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           128     float    none      -1    20.00    0.05    0.03       0    99.00    0.01    0.01       0
        2048           256     float    none      -1    21.00    0.10    0.05       0    99.00    0.02    0.01     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.04
#
# Collective test concluded: all_gather_perf
"""
BODY = NOW.split("# Using devices\n")[1]
WANT = ((1024, 20e-6), (2048, 21e-6))


def _read(folder: Path, text: str, name: str = "out.txt", ranks: int | None = None) -> list[Printed]:
    path = folder / name
    path.write_text(text)
    return read_nccl_tests([path], ranks)


def _table(header: str, *rows: str, ranks: str = "#   Rank  {r} Pid  31 on  box device  {r} [0x1b] Tesla V100") -> str:
    return "\n".join(["# nThread 1 nGpus 2", *(ranks.format(r=r) for r in range(2)), header, "# (B) (elements)", *rows])


def test_the_newest_release(tmp_path: Path) -> None:
    (one,) = _read(tmp_path, NOW)
    assert (one.operation, one.ranks, one.hosts, one.device) == ("all_gather", 2, 1, "NVIDIA A100-SXM4-80GB")
    assert one.rows == WANT and not one.notes


LAYOUTS = {
    "2019, error": _table(
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error",
        "1024 256 float sum 20.0 0.05 0.05 1e-07 9.0 0.1 0.1 0e+00",
        "2048 512 float sum 21.0 0.1 0.1 1e-07 9.0 0.1 0.1 0e+00",
    ),
    "2019, no operation": _table(
        "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error",
        "1024 256 float 20.0 0.05 0.05 0e+00 9.0 0.1 0.1 0e+00",
        "2048 512 float 21.0 0.1 0.1 0e+00 9.0 0.1 0.1 0e+00",
    ),
    "broadcast, root": _table(
        "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error",
        "1024 256 float 0 20.0 0.05 0.05 0e+00 9.0 0.1 0.1 0e+00",
        "2048 512 float 0 21.0 0.1 0.1 0e+00 9.0 0.1 0.1 0e+00",
    ),
    "rccl-tests": "rccl-tests: Version develop:83d38d9\n"
    + _table(
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
        "0 0 float sum -1 5.70 0.00 0.00 0 5.54 0.00 0.00 0",
        "1024 256 float sum -1 20.0 0.05 0.05 0 9.0 0.1 0.1 N/A",
        "2048 512 float sum -1 21.0 0.1 0.1 0 9.0 0.1 0.1 N/A",
        ranks="#  Rank  {r} Group  0 Pid  37300 on   g100n126 device  {r} [0000:05:00] AMD Instinct MI300X",
    ),
    "bitwise, per iteration, timestamps": _table(
        "#       size   count  type  redop  root  time  algbw  busbw  #wrong  #bitdiff  i_min  i_max  i_p99  i_cv%"
        "  time  algbw  busbw  #wrong  #bitdiff  i_min  i_max  i_p99  i_cv%  timestamp",
        "1024 256 float sum -1 20.0 0.05 0.05 0 0 19 22 22 3 9.0 0.1 0.1 0 0 8 9 9 3 2026-01-01 10:00:00",
        "2048 512 float sum -1 21.0 0.1 0.1 0 0 19 22 22 3 9.0 0.1 0.1 0 0 8 9 9 3 2026-01-01 10:00:01",
    ),
    "two pasted side by side": _table(
        "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong  |  #  size  count  type  time",
        "1024 256 float sum -1 20.0 0.05 0.05 0 9.0 0.1 0.1 0 | 1024 256 float 5.0",
        "2048 512 float sum -1 21.0 0.1 0.1 0 9.0 0.1 0.1 0 | 2048 512 float 5.0",
    ),
    "every size twice": _table(
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "1024 256 float sum -1 19.0 0.05 0.05 0",
        "2048 512 float sum -1 20.0 0.1 0.1 0",
        "1024 256 float sum -1 21.0 0.05 0.05 0",
        "2048 512 float sum -1 22.0 0.1 0.1 0",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_are_found_by_name(tmp_path: Path, layout: str) -> None:
    (one,) = _read(tmp_path, LAYOUTS[layout], "broadcast_2.txt")
    assert [size for size, _ in one.rows] == [1024, 2048] and one.ranks == 2
    assert [s for _, s in one.rows] == pytest.approx([20e-6, 21e-6])


@pytest.mark.parametrize("label", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "    ", "> ", "[pod/a-0/nccl] "])
def test_labels_of_launchers_are_no_columns(tmp_path: Path, label: str) -> None:
    (one,) = _read(tmp_path, "".join(label + line + "\n" for line in NOW.splitlines()))
    assert one.rows == WANT and one.ranks == 2


def test_stamped_lines_and_lines_of_nccl_in_between(tmp_path: Path) -> None:
    lines = [f"2026-01-01T10:00:{i:02d}.5Z {line}" for i, line in enumerate(NOW.splitlines())]
    lines.insert(12, "nodeA:4711:4720 [0] NCCL INFO Connected all rings")
    (one,) = _read(tmp_path, "\n".join(lines))
    assert one.rows == WANT


def test_several_tests_in_one_file(tmp_path: Path) -> None:
    text = NOW + "$ mpirun -np 2 ./build/alltoall_perf -b 1K -e 2K\n" + BODY
    first, second = _read(tmp_path, text)
    assert (first.operation, second.operation) == ("all_gather", "all_to_all")
    assert first.rows == second.rows == WANT and second.ranks == 2


def test_tests_that_say_nothing_here_are_left_out_or_named(tmp_path: Path) -> None:
    other = NOW.replace("all_gather_perf", "gather_perf")
    assert [one.operation for one in _read(tmp_path, other + NOW)] == ["all_gather"]
    with pytest.raises(BadInput, match="is of gather_perf"):
        _read(tmp_path, other)
    with pytest.raises(BadInput, match="is of alltoallv_perf"):
        _read(tmp_path, NOW.replace("all_gather_perf", "alltoallv_perf"))


def test_a_paste_that_ends_within_a_row_keeps_the_others(tmp_path: Path) -> None:
    text = NOW[: NOW.index("2048           256") + 30]
    (one,) = _read(tmp_path, text)
    assert one.rows == WANT[:1] and "1 rows are cut short and left out (line 13)" in one.notes[0]


def test_other_types_and_wrong_results_are_told(tmp_path: Path) -> None:
    row = "        1024           512      half    none      -1    40.00    0.05    0.03       3    99.00    0.01    0.01 0\n"
    (one,) = _read(tmp_path, NOW.replace("# Out of", row + "# Out of"))
    assert one.rows == WANT
    assert any("rows of float none count, not those of half none" in note for note in one.notes)
    assert any("1 rows had wrong results" in note for note in one.notes)


def test_a_list_of_ranks_that_is_printed_cut(tmp_path: Path) -> None:
    text = NOW.replace("#  Rank  1 Group", "#  Rank 15 Group")
    (one,) = _read(tmp_path, text)
    assert (one.ranks, one.hosts) == (16, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (NOW.replace("Rank  1", "Rank  0"), "build nccl-tests with MPI=1"),
        (NOW.replace("#  Rank  1", "# -"), "nothing was sent"),
        (NOW.replace("time ", "cputime "), "times of the host"),
        ("\n".join(NOW.splitlines()[11:]), "below a header"),
        ('{"results": []}', "below a header"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        _read(tmp_path, text)
