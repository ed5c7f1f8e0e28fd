"""`init` on a terminal: one question each for what is left open, asked again where the answer cannot be read."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

import pytest
import yaml

from windtunnel import api
from windtunnel.cli.main import run

FAST = "openai-community/gpt2"


def _answer(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Stand in for a terminal on which these lines are typed; returns the questions."""
    left, asked = list(answers), []

    def typed(question: str) -> str:
        asked.append(question)
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("windtunnel.cli.init.on_terminal", lambda: True)
    monkeypatch.setattr("builtins.input", typed)
    return asked


def test_wrong_answers_are_asked_again_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = _answer(monkeypatch, "openai-community/gqt2", FAST, "h101-sxm-80gb", "a100-sxm-80gb", "none", "0", "2")
    assert run(["init", str(tmp_path / "s.yaml")]) == 0
    assert [q.split(":")[0].split(" [")[0] for q in asked] == [
        *["Model"] * 2,
        *["Device"] * 2,
        *["Nodes of 8 devices"] * 3,
    ]
    err = capsys.readouterr().err
    assert "did you mean" in err and "must be a whole number from 1" in err
    cluster = yaml.safe_load((tmp_path / "s.yaml").read_text())["cluster"]
    assert cluster == {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
    assert api.simulate_training(tmp_path / "s.yaml").memory_fits


def test_what_was_given_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _answer(monkeypatch, "")
    assert run(["init", str(tmp_path / "s.yaml"), "--model", FAST, "--nodes", "1"]) == 0
    assert len(asked) == 1 and asked[0].startswith("Device")
    assert yaml.safe_load((tmp_path / "s.yaml").read_text())["cluster"]["device"] == "h100-sxm-80gb"


@pytest.mark.slow
def test_more_nodes_are_offered_until_a_plan_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _answer(monkeypatch, "meta-llama/Llama-3.1-70B", "", "", "", "")
    assert run(["init", str(tmp_path / "s.yaml")]) == 0
    nodes = [q for q in asked if q.startswith("Nodes")]
    assert len(nodes) > 1 and nodes[1].endswith("[2]: ")
    assert api.simulate_training(tmp_path / "s.yaml").memory_fits


def test_ending_the_questions_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, FAST)
    assert run(["init", str(tmp_path / "s.yaml")]) == 130
    assert not (tmp_path / "s.yaml").exists()


def test_without_a_terminal_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked"))
    assert run(["init", str(tmp_path / "s.yaml"), "--model", FAST]) == 0


def test_on_a_real_terminal(tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:  # the program, on its own terminal
        os.chdir(tmp_path)
        program = "from windtunnel.cli.main import main; main()"
        os.execv(sys.executable, [sys.executable, "-c", program, "init", "s.yaml", "--device", "h100-sxm-80gb"])
    shown, begun = "", time.monotonic()
    answers = {"Model": FAST, "Nodes": "1"}
    while time.monotonic() - begun < 120:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                shown += os.read(terminal, 4096).decode()
            except OSError:
                break
        for question in list(answers):
            if question in shown and shown.rstrip(" ").endswith("]:"):
                os.write(terminal, f"{answers.pop(question)}\n".encode())
                shown += "\n"
                break
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    assert yaml.safe_load((tmp_path / "s.yaml").read_text())["model"] == FAST
