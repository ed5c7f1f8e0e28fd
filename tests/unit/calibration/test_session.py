"""A calibration that is interrupted goes on where it stopped; what it says of progress and time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="what measures needs PyTorch")

from windtunnel.calibration import bench, session
from windtunnel.calibration import measure as real
from windtunnel.calibration.cases import Case
from windtunnel.calibration.store import Measurement
from windtunnel.cli.main import run
from windtunnel.errors import BadInput


class _Bench:
    """Stands in for PyTorch: a millisecond a case, and Ctrl-C at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at, self.ran = stop_at, []  # type: ignore[var-annotated]

    def __call__(self, case: Case, device: object, *, together: bool = False) -> Measurement:
        if len(self.ran) == self.stop_at:
            raise KeyboardInterrupt
        self.ran.append(case.key)
        size = float(case.shape.get("m", 64)) * case.shape.get("n", 64) * case.shape.get("k", 64)
        seconds = 1e-5 + 1e-11 * size
        return Measurement(case, seconds, 0.99 * seconds, 1.01 * seconds, 5)


def test_after_ctrl_c_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, first, second = tmp_path / "kept.jsonl", _Bench(stop_at=10), _Bench()
    monkeypatch.setattr(bench, "measure", first)
    with pytest.raises(KeyboardInterrupt):
        session.calibrate(store=kept, kind="cpu")
    assert len(kept.read_text().splitlines()) == 11  # conditions, ten cases
    monkeypatch.setattr(bench, "measure", second)
    told: list[tuple[int, int]] = []
    found = session.calibrate(store=kept, kind="cpu", report=lambda done, total: told.append((done, total)))
    assert not set(first.ran) & set(second.ran)
    assert told[0][0] == 11 and told[-1][0] == told[-1][1] == len(first.ran) + len(second.ran)
    assert found.device.profile is not None and found.device.profile.conditions["cases"] == told[-1][1]
    again = _Bench()
    monkeypatch.setattr(bench, "measure", again)
    session.calibrate(store=kept, kind="cpu")
    assert not again.ran


def test_a_line_cut_short_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept.jsonl"
    monkeypatch.setattr(bench, "measure", _Bench(stop_at=3))
    with pytest.raises(KeyboardInterrupt):
        session.calibrate(store=kept, kind="cpu")
    whole = kept.read_text()
    kept.write_text(whole[:-20])
    last = _Bench()
    monkeypatch.setattr(bench, "measure", last)
    session.calibrate(store=kept, kind="cpu")
    assert whole.splitlines()[-1] in kept.read_text() and len(kept.read_text().splitlines()) == 3 + len(last.ran)


def test_no_case_starts_after_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    few = _Bench()
    monkeypatch.setattr(bench, "measure", few)
    with pytest.raises(BadInput, match="more --seconds"):  # a launch says nothing of the machine's rates
        session.calibrate(kind="cpu", seconds=0.0)
    assert len(few.ran) == 1


def test_what_a_machine_cannot_do_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="this machine has no more"):
        session.calibrate(ranks=4096, kind="cpu")
    assert run(["calibrate", "--on", "tpu", "--out", str(tmp_path / "x.yaml")]) == 2
    assert "--on" in capsys.readouterr().err


def test_a_machine_that_became_slower_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, quick = tmp_path / "kept.jsonl", _Bench()
    monkeypatch.setattr(bench, "measure", quick)
    session.calibrate(store=kept, kind="cpu")
    assert set(session.drift(kept, 1, "cpu").values()) == {1.0}

    slower = {"gemm": 1.5}

    def slow(case: Case, device: object, *, together: bool = False) -> Measurement:
        one = quick(case, device)
        return Measurement(case, one.median_s * slower.get(case.kind, 1.0), one.low_s, one.high_s, one.runs)

    monkeypatch.setattr(bench, "measure", slow)
    found = session.drift(kept, 1, "cpu")
    assert found["gemm"] == pytest.approx(1.5) and found["pointwise"] == pytest.approx(1.0)
    assert not real.changed(str(kept.with_suffix(".yaml")), 1, "cpu")  # one kind alone may be chance
    slower |= {"thin": 1.5, "attention": 1.4}
    (line,) = real.changed(str(kept.with_suffix(".yaml")), 1, "cpu")
    assert "gemm 1.5, thin 1.5, pointwise 1, attention 1.4; calibrate again" in line
    assert session.drift(tmp_path / "none.jsonl", 1, "cpu") == {}
