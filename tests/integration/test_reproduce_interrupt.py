"""`windtunnel reproduce` in processes of its own: Ctrl-C and a killed parent leave none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are looked up in /proc"),
]

SLOW = ("holmes", "galvatron", "frontier_3d")


def children(pid: int) -> set[int]:
    """Processes that a process has started, and theirs."""
    try:
        text = " ".join(p.read_text() for p in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return set()
    own = {int(x) for x in text.split()}
    return own | {x for child in own for x in children(child)}


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone(pids: set[int], within_s: float) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not any(map(alive, pids)):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_no_process_is_left(sent: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "windtunnel.cli.main", "reproduce", *SLOW, "--jobs", "2", "--json"]
    paths = os.pathsep.join(p for p in sys.path if p)
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        end = time.monotonic() + 60
        while len(workers := {x for x in children(run.pid)}) < 3 and time.monotonic() < end:
            time.sleep(0.05)  # two workers, and what tracks their resources
        time.sleep(2.0)  # they have begun
        os.kill(run.pid, sent)
        out, err = run.communicate(timeout=20)
    finally:
        run.kill()
    assert run.returncode == code, err
    assert len(workers) >= 3 and gone(workers, 10)
    if sent == signal.SIGINT:
        assert out.strip() == "[]" and "stopped: 0 of 3 papers had run" in err
