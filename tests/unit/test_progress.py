"""Long work says how far it is and how long it takes."""

from __future__ import annotations

import contextlib

import pytest

from windtunnel import kernel_cache, progress
from windtunnel.cli.output import _how_far, _State
from windtunnel.cli.output import progress as shown
from windtunnel.errors import BadInput


def test_counts_are_seen_while_work_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    done = [0]
    assert progress.counted() is None
    with progress.counting("requests", lambda: (done[0], 50)):
        assert progress.counted() == progress.Count("requests", 0, 50, None)
        done[0], now[0] = 10, 105.0
        count = progress.counted()
        assert count is not None and count.left_s == 20.0
        assert _how_far(count.done, count.total, count.left_s, count.what) == "10 of 50 requests, about 20 s left"
    assert progress.counted() is None


def test_compiling_is_said_in_place_of_counts_that_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    state = _State()
    with progress.counting("requests", lambda: (17, 200)):
        assert "17 of 200 requests" in state.words()
        monkeypatch.setattr(kernel_cache, "compiling", lambda: True)
        assert state.words() == ", compiling machine code, once on this machine"


def test_a_kernel_is_being_compiled_while_numba_compiles() -> None:
    from numba.core import event

    from windtunnel import jit

    assert not kernel_cache.compiling()
    with event.trigger_event("numba:compile"):
        assert kernel_cache.compiling() and jit.compiling()
    assert not kernel_cache.compiling()


def test_only_long_work_is_announced() -> None:
    heard: list[str] = []
    with progress.listening(heard.append):
        progress.expect("a little", 2.0)
        progress.expect("a lot", 7200.0)
    progress.expect("unheard", 7200.0)
    assert heard == ["a lot: about 2 h"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(12.0, "12 s"), (80.0, "80 s"), (240.0, "4 min"), (9000.0, "2.5 h"), (1e9, "11,574 days")]
)
def test_durations(seconds: float, words: str) -> None:
    assert progress.duration(seconds) == words


def test_stopped_work_says_how_far_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """The innermost count is told, and no later stop tells it again, nor one that was dealt with."""
    with contextlib.suppress(KeyboardInterrupt), progress.counting("replications", lambda: (296, 688)):
        raise KeyboardInterrupt
    with (
        pytest.raises(KeyboardInterrupt),
        shown("simulating"),
        progress.counting("loads", lambda: (1, 3)),
        progress.counting("requests", lambda: (12_000, 20_000_000)),
    ):
        raise KeyboardInterrupt
    assert "stopped while simulating after 12,000 of 20,000,000 requests" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt), shown("simulating"):
        raise KeyboardInterrupt
    told = capsys.readouterr().err
    assert "stopped while simulating:" in told and "requests" not in told


def test_work_of_hours_is_refused_with_its_estimate_and_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    done = [10.0]
    with progress.counting("jobs", lambda: (done[0], 10_000_000.0), "jobs.generate.count, jobs.trace") as pace:
        pace.check()
        clock[0] = 6.0
        said = r"^jobs.generate.count: 9,999,990 more jobs would take about 69 days, and 4 h at most are allowed"
        with pytest.raises(BadInput, match=said):
            pace.check()
    done[0] = 5e6
    with progress.counting("jobs", lambda: (done[0], 1e7), "jobs.generate.count") as pace:
        clock[0] += 3000.0
        pace.check()


def test_work_in_which_nothing_has_ended_is_refused_once_one_of_them_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with progress.counting("runs", lambda: (0.0, 100.0), "run.replications") as pace:
        clock[0] = 140.0
        pace.check()
        clock[0] = 150.0
        with pytest.raises(BadInput, match=r"run.replications: 100 more runs would take about"):
            pace.check()
