"""`sweep query` as a person reads it, and axes that no scenario has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windtunnel.cli.main import run

pytest.importorskip("duckdb")
SMALL = """\
model: openai-community/gpt2
cluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 2}
training: {seq_len: 1024, global_batch: 16}
plan: {tp: 1, mbs: 4}
"""


def test_a_sweep_prints_its_axes_and_main_figures_best_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "s.yaml").write_text(SMALL)
    out = str(tmp_path / "rows")
    assert run(["sweep", str(tmp_path / "s.yaml"), "--vary", "plan.mbs=1,2,8", "--out", out, "-j", "1"]) == 0
    assert f"windtunnel sweep query {out}" in capsys.readouterr().out
    assert run(["sweep", "query", out]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80 and "e+" not in shown.out
    head = next(line for line in lines if line.startswith("plan.mbs"))
    assert "fits" in head and "GiB" in shown.out and "other columns" in shown.err
    assert run(["sweep", "query", out, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["step_time_s"] for row in rows] == sorted(row["step_time_s"] for row in rows)
    assert run(["sweep", "query", out, "-v"]) == 0
    assert "breakdown" in capsys.readouterr().out


@pytest.mark.parametrize("axes", [["--vary", "plan.tpp=1,2"], ["--zip", "plan.mbs=1,2 training.seqlen=512,1024"]])
def test_an_axis_that_no_scenario_has_is_refused_before_anything_is_computed(
    axes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(SMALL)
    assert run(["sweep", str(tmp_path / "s.yaml"), *axes, "--out", str(tmp_path / "rows"), "-j", "1"]) == 2
    assert capsys.readouterr().err.count("unknown field; did you mean") == 1
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("search.limits.memory", "memory_fraction"),
        ("search.memory_fraction", "search.limits.memory_fraction"),
        ("training.tp", "plan.tp"),
        ("tp", "plan.tp"),
        ("plan.seq_len", "training.seq_len"),
    ],
)
def test_a_field_in_the_wrong_place_is_answered_with_its_path(
    written: str, meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(SMALL)
    assert run(["train", str(tmp_path / "s.yaml"), "--set", f"{written}=1"]) == 2
    assert f"{written} = 1: unknown field; did you mean '{meant}'?" in capsys.readouterr().err
