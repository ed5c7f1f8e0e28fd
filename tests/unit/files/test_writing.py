"""A file is written whole or not at all, and a chart as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from windtunnel.errors import BadInput
from windtunnel.files.writing import open_text, write_text

SAVE = """
import resource, sys
from windtunnel.charts.chart import Chart, save
from windtunnel.errors import BadInput
class Drawn:
    def svg(self, width): return "x" * 100_000
    def spec(self, width): return {"x": "y" * 100_000}
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    save(Drawn(), sys.argv[1], 700)
except BadInput as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["c.svg", "c.json"])
def test_a_chart_that_does_not_fit_leaves_the_older_one(name: str, tmp_path: Path) -> None:
    chart = tmp_path / name
    chart.write_text("older")
    done = subprocess.run(
        [sys.executable, "-B", "-c", SAVE, str(chart)], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout == f"cannot be written: File too large ({chart})\n"
    assert chart.read_text() == "older"


def test_an_error_in_the_block_leaves_the_older_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("older")

    def begin_and_fail() -> None:
        with open_text(path) as stream:
            stream.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        begin_and_fail()
    assert [p.read_text() for p in tmp_path.iterdir()] == ["older"]


def test_a_refusal_is_one_line_whatever_the_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        write_text(tmp_path / "a\nb" / "c\x1b[2J", "text")
    assert str(error.value).endswith("a�b/c�[2J)")
