"""Sweeps that are killed at any moment, whose files are damaged, and that two processes write: no cell lost or wrong.

`make crash ROUNDS=50` runs many rounds. Each prints its seed, which `WINDTUNNEL_CRASH_SEED` gives back.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from windtunnel.sweeps.start import summary
from windtunnel.sweeps.views import query

pytestmark = pytest.mark.slow

SCENARIO = Path(__file__).parents[2] / "examples" / "llama3-70b-64xh100.yaml"
VARY = ("plan.tp=2,4,8", "plan.mbs=1,2", "plan.pp=2,4,8", "training.global_batch=64..512:x2")
ROUNDS = int(os.environ.get("WINDTUNNEL_CRASH_ROUNDS", "4"))
SEED = int(os.environ.get("WINDTUNNEL_CRASH_SEED", str(time.time_ns() % 1_000_000)))
RAY = os.environ.get("WINDTUNNEL_CRASH_RAY")
Whole = tuple[Path, pd.DataFrame, float]
OFTEN = """
import windtunnel.sweeps.shards as shards, windtunnel.sweeps.store as store
store.FLUSH_S = 0.0
store.MERGE = shards.MERGE = 6
from windtunnel.cli.main import main
if __name__ == "__main__": main()
"""
"""The command with a shard for every row or two, so that a kill meets writes and merges."""


def started(folder: Path, driver: Path) -> subprocess.Popen[str]:
    """The sweep as a process, in a group of its own."""
    vary = [word for axis in VARY for word in ("--vary", axis)]
    where = ["--ray", "local"] if RAY else ["-j", "2"]
    command = [sys.executable, str(driver), "sweep", str(SCENARIO), *vary, "--out", str(folder), *where]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def figures(folder: Path) -> pd.DataFrame:
    """What a sweep found, each row that counts once, without what differs from run to run."""
    frame = query(folder, "SELECT * FROM attempts ORDER BY cell")
    return frame.drop(columns=["started_at", "wall_s", "attempt", "simulated_in_s"])


def cut(path: Path, chance: random.Random) -> None:
    """Cut a file short, at any byte."""
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content) + 1)])


def flip(path: Path, chance: random.Random) -> None:
    """Flip a bit of a file."""
    content = bytearray(path.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def remove(path: Path, _: random.Random) -> None:
    """Remove a file."""
    path.unlink()


def second_writer(folder: Path, driver: Path, first: subprocess.Popen[str]) -> None:
    """Start the same sweep once more: it is refused in one line while the first holds the folder."""
    while first.poll() is None and not (folder / "manifest.json").exists():
        time.sleep(0.05)
    second = started(folder, driver)
    _, errors = second.communicate(timeout=300)
    assert "Traceback" not in errors
    if first.poll() is None:
        assert second.returncode == 2
        assert "is being written by" in errors


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The driver, the figures of a run that nothing interrupts, and its seconds."""
    folder = tmp_path_factory.mktemp("whole")
    driver = folder / "driver.py"
    driver.write_text(OFTEN)
    begun = time.monotonic()
    process = started(folder / "s", driver)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return driver, figures(folder / "s"), time.monotonic() - begun


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_crash_loses_and_changes_no_cell(
    number: int, whole: tuple[Path, pd.DataFrame, float], tmp_path: Path
) -> None:
    driver, expected, seconds = whole
    chance = random.Random(SEED + number)
    print(f"seed {SEED + number}")
    folder = tmp_path / "s"
    for _ in range(chance.randint(1, 2)):
        process = started(folder, driver)
        if chance.random() < 0.2:
            second_writer(folder, driver, process)
        try:
            process.wait(timeout=chance.uniform(0.4, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))
        _, errors = process.communicate(timeout=300)
        assert "Traceback" not in errors, errors
        files = [p for p in folder.rglob("*") if p.is_file() and p.name != "lock"] if folder.exists() else []
        for path in chance.sample(files, min(len(files), chance.randint(0, 2))):
            harm: Callable[[Path, random.Random], None] = chance.choice((cut, flip, remove))
            print(f"{harm.__name__} {path.name}")
            harm(path, chance)
    last = started(folder, driver)
    _, errors = last.communicate(timeout=600)
    assert last.returncode == 0, errors
    assert "Traceback" not in errors
    pd.testing.assert_frame_equal(figures(folder), expected, check_exact=True, check_like=True)
    assert summary(folder)["missing"] == 0
