"""Profiles from a user's own step times: what is made up from known coefficients comes back, the rest stays."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import windtunnel as wt
from windtunnel.calibration.logs import read_logs
from windtunnel.calibration.logs_fit import LogFit, fit_logs
from windtunnel.calibration.profile import write_device
from windtunnel.cli.main import run
from windtunnel.training.predict import prepare, simulate_training

MODEL = {
    "name": "small",
    "hidden_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "intermediate_size": 5632,
    "vocab_size": 32000,
}
SCENARIO: dict[str, Any] = {
    "model": MODEL,
    "cluster": {"device": "h100-sxm", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 16, "framework": "torchtitan"},
    "plan": {"zero": 3, "mbs": 2},
}
SHAPES = [(1024, 2, 1), (4096, 2, 1), (8192, 2, 1), (4096, 1, 2), (8192, 1, 2), (16384, 1, 1)]


def _logs(folder: Path, factor: float = 0.8, shapes: list[tuple[int, int, int]] = SHAPES) -> tuple[Path, Path]:
    """A base scenario, and what a machine would log whose products run at `factor` of the catalogue's rate."""
    base, logs = folder / "base.json", folder / "steps.csv"
    base.write_text(json.dumps(SCENARIO))
    fractions = prepare(base)[0].coefficients.gemm_fraction
    with logs.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(["training.seq_len", "plan.mbs", "training.global_batch", "step_time_s", "peak_memory_bytes"])
        for seq_len, mbs, count in shapes:
            changes = (f"training.seq_len={seq_len}", f"plan.mbs={mbs}", f"training.global_batch={8 * mbs * count}")
            result = simulate_training(
                base,
                overrides=changes,
                sensitivities=False,
                coefficient_overrides={"gemm_fraction": {k: factor * v for k, v in fractions.items()}},
            )
            memory = result.peak_memory_allocated_bytes
            out.writerow([seq_len, mbs, 8 * mbs * count, result.step_time_s, 1.1 * memory if count > 1 else ""])
    return base, logs


def _fitted(base: Path, logs: Path) -> LogFit:
    return fit_logs(read_logs(logs, scenario=str(base)), logs.name)


def test_a_slower_machine_comes_back(tmp_path: Path) -> None:
    base, logs = _logs(tmp_path)
    found = _fitted(base, logs)
    entry = found.moved["gemm_fraction.bf16"]
    prior = found.priors["gemm_fraction.bf16"].prior
    assert entry.grade == "fitted" and entry.relative_error is not None and "6 rows of steps.csv" in entry.source
    assert abs(entry.value / prior - 0.8) < 2.5 * entry.relative_error and entry.value < 0.93 * prior
    assert entry.relative_error < found.priors["gemm_fraction.bf16"].width
    assert found.median_error("before") > 0.08 > 4 * found.median_error("after")
    assert found.median_error("left_out") < 0.5 * found.median_error("before")
    assert "scale_out_scale" in found.silent and "scale_out_scale" not in found.moved  # one node
    assert found.rows[3].memory is not None and found.rows[3].memory[0] < found.rows[3].memory[1]
    assert found.rows[0].memory is None


def test_the_written_profile_predicts_what_the_fit_promised(tmp_path: Path) -> None:
    base, logs = _logs(tmp_path, shapes=SHAPES[:3])
    found = _fitted(base, logs)
    write_device(found.device, tmp_path / "mine.yaml", found.cluster)
    changes = ("training.seq_len=1024", "cluster.device=mine.yaml")
    result = wt.simulate_training(base, overrides=changes)
    assert result.step_time_s == pytest.approx(found.rows[0].after_s, rel=1e-9)


def test_logs_that_agree_with_the_catalogue_change_nothing(tmp_path: Path) -> None:
    found = _fitted(*_logs(tmp_path, factor=1.0, shapes=SHAPES[:3]))
    for name, entry in found.moved.items():
        assert entry.value == pytest.approx(found.priors[name].prior, rel=1e-3)
    assert found.median_error("after") < 1e-3


def test_one_row_moves_what_it_cannot_tell_apart_together(tmp_path: Path) -> None:
    found = _fitted(*_logs(tmp_path, shapes=SHAPES[1:2]))
    assert len(found.together) > 1 and found.rows[0].left_out_s is None
    assert abs(found.rows[0].error("after")) < abs(found.rows[0].error("before"))
    assert any("three or more" in line for line in found.warnings)


def test_an_impossible_row_is_named(tmp_path: Path) -> None:
    base, logs = _logs(tmp_path, factor=1.0, shapes=SHAPES[:3])
    lines = logs.read_text().splitlines()
    cells = lines[2].split(",")
    cells[3] = str(10 * float(cells[3]))
    logs.write_text("\n".join([*lines[:2], ",".join(cells), *lines[3:]]))
    assert any("line 3" in line and "check the row" in line for line in _fitted(base, logs).warnings)


def test_mistakes_in_a_log_are_named_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, logs = tmp_path / "base.json", tmp_path / "steps.csv"
    base.write_text(json.dumps(SCENARIO))
    told = _refused(["--from-logs", str(logs)], capsys)
    assert "cannot be read" in told and "steps.csv" in told
    logs.write_text("step_time,traning.seq_len,plan.tp\n1,2,3\n")
    told = _refused(["--from-logs", str(logs)], capsys)
    for part in (
        "step_time_s: is required",
        "did you mean 'step_time'",
        "scenario: is required",
        "traning.seq_len",
        "did you mean 'training'",
    ):
        assert part in told, told
    logs.write_text("step_time_s,plan.tp,training.seq_len\nfast,1,1024\n-1,1,1024\n1.0,3,1024\n1.0,1,0\n1.0\n")
    told = _refused(["--from-logs", str(logs), "--scenario", str(base)], capsys)
    for part in ("step_time_s = fast", "steps.csv:2", "step_time_s = -1", "training.seq_len", "line 5", "steps.csv:6"):
        assert part in told, told
    logs.write_text("step_time_s,plan.tp\n1.0,3\n1.0,1\n")
    assert "line 2" in _refused(["--from-logs", str(logs), "--scenario", str(base)], capsys)
    logs.write_text("step_time_s,cluster.device\n1.0,h100-sxm\n1.0,a100-sxm-80gb\n")
    assert "must be the same in all rows" in _refused(["--from-logs", str(logs), "--scenario", str(base)], capsys)
    assert "--scenario" in _refused(["--scenario", str(base)], capsys)


def _refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["calibrate", *arguments]) == 2
    return capsys.readouterr().err


def test_the_verb_writes_a_profile_and_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, logs = _logs(tmp_path, shapes=SHAPES[:3])
    out, plot = tmp_path / "mine.yaml", tmp_path / "plot.html"
    arguments = ["calibrate", "--from-logs", str(logs), "--scenario", str(base), "--out", str(out), "--plot", str(plot)]
    assert run(arguments) == 0
    told = capsys.readouterr().out
    for part in ("gemm_fraction.bf16", "before", "left out", "median error", "not informed", "scale_out_scale"):
        assert part in told
    assert out.exists() and "step times before and after the fit" in plot.read_text("utf-8")
    assert run([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["median_error"]["after"] < data["median_error"]["before"] and len(data["rows"]) == 3
