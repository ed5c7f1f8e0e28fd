"""Hundreds of wrong inputs at every entry point: no internal error, no answer that cannot be, no hours of work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED, CASES = 700_000, 600


@pytest.mark.slow
def test_hundreds_of_wrong_inputs_end_in_an_answer_or_a_refusal(tmp_path: Path) -> None:
    for package in ("mcp", "starlette", "pandas", "duckdb"):
        pytest.importorskip(package)
    script = str(ROOT / "tests" / "fuzz" / "fuzz_run.py")
    words = [sys.executable, script, "--seed", str(SEED), "--cases", str(CASES), "--out", str(tmp_path), "--no-smaller"]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in (str(ROOT / "src"), os.environ.get("PYTHONPATH")) if p),
    }
    done = subprocess.run(words, capture_output=True, text=True, timeout=3600, check=False, env=env)
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"seed {SEED}: {CASES:,} cases" in done.stdout and "0 faults of 0 kinds" in done.stdout
