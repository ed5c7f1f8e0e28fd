"""What a long command says of itself while it runs."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from windtunnel.cli import output
from windtunnel.cli.output import _State, _watch_lines


class _Clock:
    """Time that a test moves: waiting for the end of the work takes no real time."""

    def __init__(self, waits: int) -> None:
        self.now, self.waits = 1000.0, waits

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now, self.waits = self.now + seconds, self.waits - 1
        return self.waits < 0


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(output, "note", lines.append)
    return lines


def _clock(monkeypatch: pytest.MonkeyPatch, waits: int) -> _Clock:
    clock = _Clock(waits)
    monkeypatch.setattr(output, "time", clock)
    return clock


def _lines(clock: _Clock, state: _State) -> None:
    done = threading.Event()
    done.wait = clock.wait  # type: ignore[method-assign, assignment]
    _watch_lines("planning", clock.now, done, state)


def test_a_line_with_nothing_new_comes_less_and_less_often(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    clock, state = _clock(monkeypatch, 100), _State()
    state.say("1,413 screened")
    _lines(clock, state)
    assert said[0] == "planning: 1,413 screened: 10 s" and len(said) <= 8  # of 1,000 seconds


def test_the_time_left_runs_down_between_counts(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    clock, state = _clock(monkeypatch, 6), _State()
    state.advance(1, 16)
    clock.now += 20.0
    state.advance(4, 16)
    _lines(clock, state)
    left = [int(line.split("about ")[1].split(" s")[0]) for line in said if "about" in line]
    assert left == sorted(left, reverse=True) and left[0] == 50 and len(set(left)) == len(left) > 3


def test_compiling_is_said_while_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    state = _State()
    state.advance(1, 16)
    jit = SimpleNamespace(compiling=lambda: True, compile_seconds=lambda: 0.0)
    monkeypatch.setitem(sys.modules, "windtunnel.jit", jit)  # type: ignore[arg-type]
    assert state.words() == ", 1 of 16, compiling machine code, once on this machine"
