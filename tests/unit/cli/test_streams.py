"""Outputs that fail, closed streams and signals: one line and the exit code that belongs to it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from windtunnel.cli.main import run

SCENARIO = Path(__file__).parents[3] / "examples" / "llama3-70b-64xh100.yaml"
COMMAND = (sys.executable, "-m", "windtunnel")


def shell(line: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command line as a shell runs it, `"$@"` for the command."""
    return subprocess.run(
        ["bash", "-c", line, "bash", *COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('"$@" > /dev/full', "No space left on device (standard output)"),
        ('"$@" --json > /dev/full', "No space left on device (standard output)"),
        ('"$@" >&-', "it is closed (standard output)"),
        ('"$@" --report "$2"', "must not be overwritten"),
    ],
)
def test_an_output_that_fails_ends_in_one_line(line: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "-m").write_text(SCENARIO.read_text())  # what "$2" names
    done = shell(line, tmp_path, "train", "./-m" if '"$2"' in line else str(SCENARIO))
    assert done.returncode == 2
    assert sum(why in line for line in done.stderr.splitlines()) == done.stderr.count("error: ") == 1


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ("/dev/full", "No space left on device (/dev/full)"),
        ("gone/r.html", "No such file or directory (gone/r.html)"),
        (".", "is a folder"),
    ],
)
def test_a_report_that_cannot_be_written_ends_in_one_line(
    report: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", str(SCENARIO), "--report", report]) == 2
    errors = capsys.readouterr().err
    assert sum(why in line for line in errors.splitlines()) == errors.count("error: ") == 1


def test_a_full_file_system_leaves_the_older_output(tmp_path: Path) -> None:
    report = tmp_path / "line\nbreak.html"
    report.write_text("older")

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run(
        [*COMMAND, "train", str(SCENARIO), "--report", str(report)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limited,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 2
    *progress, message = done.stderr.splitlines()
    assert "File too large" in message
    assert all(line.startswith(("simulating", "compiled")) for line in progress)
    assert report.read_text() == "older"
    assert list(tmp_path.iterdir()) == [report]


@pytest.mark.parametrize("name", ["a b.html", "é" * 125 + ".html", "x" * 250 + ".html", "tab\t.html"])
def test_outputs_have_any_name_that_a_file_can_have(name: str, tmp_path: Path) -> None:
    assert run(["train", str(SCENARIO), "--report", str(tmp_path / name)]) == 0
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_reader_who_has_gone_ends_the_command_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "train", str(SCENARIO), "--json"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert done.returncode == 141
    assert all(line.startswith((b"simulating", b"compiled")) for line in done.stderr.splitlines())


@pytest.mark.slow
def test_without_standard_input_and_errors_the_result_is_the_same(tmp_path: Path) -> None:
    plain = shell('"$@" --json', tmp_path, "train", str(SCENARIO))
    closed = shell('"$@" --json <&- 2>&-', tmp_path, "train", str(SCENARIO))
    assert closed.returncode == plain.returncode == 0
    assert json.loads(closed.stdout)["step_time_s"] == json.loads(plain.stdout)["step_time_s"]


LEARN = """
learning:
  task: mlp-digits
  workers: 4
  steps: 200000
  seeds: 2
  algorithms: [data_parallel]
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_learning_with_its_exit_code_and_no_process_stays(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "learn.yaml").write_text(LEARN)
    process = subprocess.Popen(
        [*COMMAND, "learn", "learn.yaml", "--no-cache"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509  # nohup would let it be ignored
    )
    assert process.stderr is not None
    time.sleep(8.0)
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    assert not subprocess.run(["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, check=False).stdout


def test_a_locale_without_utf_8_takes_and_gives_what_files_hold(tmp_path: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-m", "windtunnel"]

    def answered(*more: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*words, *more], input=given, env=environment, capture_output=True, check=False)

    done = answered("train", "-", "--json", given='name: é\nplan: {"模": 1}\n'.encode())
    problems = json.loads(done.stdout)["error"]["problems"]
    assert done.returncode == 2 and "plan.模" in [one["field"] for one in problems]
    done = answered("train", "-", "--set", "plan.模=é", "--json", given=b"name: x\n")
    assert ("plan.模", "é") in [(one["field"], one["value"]) for one in json.loads(done.stdout)["error"]["problems"]]
    done = answered("batch", "-", given=b"\xff\n" + b'{"verb": "no such"}\n')
    assert [json.loads(line)["ok"] for line in done.stdout.splitlines()] == [False, False]
    done = answered("import", "-", given=b"\xff")
    assert done.returncode == 2 and done.stderr == b"error: standard input: must be UTF-8 text\n"
