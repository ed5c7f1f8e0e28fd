"""Commands where the system lacks what only Unix has, as on Windows; and a lock that two processes want."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from windtunnel.files import locking

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "llama3-8b-8xh100-fsdp.yaml"
WITHOUT = """\
import json, multiprocessing, os, signal, subprocess, sys, tempfile

for name in ("fork", "register_at_fork", "sched_getaffinity", "getuid", "geteuid", "killpg", "O_NOFOLLOW", "O_NONBLOCK",
             "O_CLOEXEC", "O_NOCTTY", "O_DIRECTORY", "sysconf"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "setitimer"):
    delattr(signal, name)
os.supports_dir_fd = set()
for name in ("resource", "termios"):
    sys.modules[name] = None
from windtunnel.cli.main import run

for words in json.load(sys.stdin):
    code = run(words)
    sys.stdout.flush()
    if code:
        sys.exit(f"{words}: exit code {code}")
"""


def test_commands_run_where_functions_of_unix_are_missing(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    calls = [
        ["train", str(EXAMPLE), "--export", "torchtitan", "--export-dir", "launch", "--force"],
        ["plan", str(EXAMPLE), "--time-limit", "60", "--output", "planned.yaml"],
        ["sweep", str(EXAMPLE), "--vary", "plan.zero=2,3", "--out", "runs", "--jobs", "1"],
        ["sweep", "resume", "runs"],
        ["sweep", "query", "runs", "SELECT step_time_s FROM cells", "--json"],
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], input=json.dumps(calls), cwd=tmp_path, env=environment,
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("step_time_s") == 2
    assert (tmp_path / "planned.yaml").is_file() and list((tmp_path / "launch").iterdir())


def test_a_lock_is_had_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("a+") as first, path.open("a+") as second:
        locking.lock_alone(first)
        with pytest.raises(OSError):
            locking.lock_alone(second)
    with path.open("a+") as third:
        locking.lock_alone(third)


def test_on_windows_a_byte_behind_the_content_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int, int]] = []

    def lock(handle: int, mode: int, count: int) -> None:
        calls.append((mode, count, os.lseek(handle, 0, os.SEEK_CUR)))

    monkeypatch.setattr(locking, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=lock, LK_NBLCK=2))
    with (tmp_path / "lock").open("a+") as stream:
        locking.lock_alone(stream)
        assert os.lseek(stream.fileno(), 0, os.SEEK_CUR) == 0
    assert calls == [(2, 1, locking.BYTE)]
