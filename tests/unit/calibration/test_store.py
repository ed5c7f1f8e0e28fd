"""Measurements on disk: what is damaged is measured again, and said."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from windtunnel.calibration.cases import Case
from windtunnel.calibration.store import Measurement, Store
from windtunnel.errors import BadInput

CONDITIONS = {"device": "h100"}


def measured(number: int) -> Measurement:
    """A measurement of a case of its own."""
    return Measurement(Case("gemm", {"m": number}), 1.0 + number, 1.0, 3.0, 5)


def filled(path: Path) -> list[str]:
    """A file of three measurements; its lines."""
    store = Store.open(path, CONDITIONS)
    for number in range(3):
        store.add(measured(number))
    return path.read_text().splitlines()


def test_a_digit_that_changed_is_seen_and_measured_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.jsonl"
    lines = filled(path)
    path.write_text("\n".join([*lines[:2], lines[2].replace("2.0", "9.0"), lines[3]]) + "\n")
    store = Store.open(path, CONDITIONS)
    assert set(store.found) == {measured(0).case.key, measured(2).case.key}
    assert "1 of 4 lines" in capsys.readouterr().err
    assert path.read_text().splitlines() == [*lines[:2], lines[3]]
    store.add(measured(1))
    assert len(Store.open(path, CONDITIONS).found) == 3
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("tail", ['{"case": {"kind"', '"text"', "\x00\x00", "[1]"])
def test_a_line_cut_short_is_left_out(tail: str, tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    lines = filled(path)
    path.write_text("\n".join([*lines, tail]))
    assert len(Store.open(path, CONDITIONS).found) == 3
    assert path.read_text().splitlines() == lines


def test_files_of_earlier_versions_without_checksums_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in ({"conditions": CONDITIONS}, asdict(measured(1)))))
    assert list(Store.open(path, CONDITIONS).found) == [measured(1).case.key]


def test_a_full_disk_is_one_line() -> None:
    with pytest.raises(BadInput, match="No space left on device"):
        Store(Path("/dev/full"), CONDITIONS).add(measured(0))
