"""The code on the page about algorithms runs, and its algorithm is what the page says."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from windtunnel.learning.algorithms import ALGORITHMS

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "write-an-algorithm.md"


def test_the_code_of_the_page_runs_and_has_forty_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDTUNNEL_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    algorithm, use = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)
    assert len([line for line in algorithm.splitlines() if line.strip()]) <= 42
    (tmp_path / "algorithm_of_the_page.py").write_text(algorithm, "utf-8")
    (tmp_path / "use_of_the_page.py").write_text(use, "utf-8")
    try:
        importlib.import_module("algorithm_of_the_page")
        result = importlib.import_module("use_of_the_page").result
        plain, warm = result.of("diloco"), result.of("warm-diloco")
        assert warm.bytes_per_worker == plain.bytes_per_worker and warm.hours == plain.hours
        assert warm.loss is not None and warm.loss != plain.loss
    finally:
        ALGORITHMS._entries.pop("warm-diloco", None)
        for name in ("algorithm_of_the_page", "use_of_the_page"):
            sys.modules.pop(name, None)
