"""The real command in its own process, the real simulation, the examples, the notebook."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def windtunnel(*arguments: str, cwd: Path = ROOT, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "windtunnel.cli.main", *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    path = [str(ROOT / "src"), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(path)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env=environment,
        check=False,
        **more,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_predict_and_account_for_every_second(example: Path) -> None:
    done = windtunnel("train", str(example), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert sum(result["breakdown"].values()) == pytest.approx(result["step_time_s"], rel=1e-6)
    assert sum(result["memory"]["at_peak"].values()) == pytest.approx(result["peak_memory_allocated_bytes"], rel=1e-6)
    assert result["interval"]["low"] < result["step_time_s"] < result["interval"]["high"]
    assert 0 < result["mfu"] < 1
    assert result["memory_fits"] == ("does-not-fit" not in example.stem)


def test_demo_writes_a_report_and_a_trace(tmp_path: Path) -> None:
    trace, report = tmp_path / "t.json", tmp_path / "r.html"
    done = windtunnel(
        "train",
        "examples/llama3-70b-64xh100.yaml",
        "--trace",
        str(trace),
        "--report",
        str(report),
        "--against",
        "14.66",
    )
    assert done.returncode == 0, done.stderr
    assert "What 10 % more would buy" in done.stdout
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["pid"] for e in events} == {0, 1, 2, 3}
    assert report.stat().st_size < 6_000_000


def test_rerun_of_a_real_result_is_equal(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(windtunnel("train", "examples/llama3-8b-8xh100-fsdp.yaml", "--json").stdout)
    done = windtunnel("rerun", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["equal"]


def test_three_mistakes_are_three_lines_and_exit_2(tmp_path: Path) -> None:
    scenario = tmp_path / "bad.yaml"
    scenario.write_text(
        "schema_version: 1\nmodel: meta-llama/Llama-3.1-70B\n"
        "cluster: {device: h100-sxm-80gb, nodes: 8, devices_per_nod: 8}\n"
        "training: {seq_len: -1, global_batch: 128}\nplan: {tp: four}\n"
    )
    done = windtunnel("train", str(scenario), "--json")
    assert done.returncode == 2
    assert len(json.loads(done.stdout)["error"]["problems"]) == 3
    lines = done.stderr.splitlines()
    assert len(lines) == 3, done.stderr
    for field, line in (("devices_per_nod", 3), ("seq_len", 4), ("plan.tp", 5)):
        assert any(field in text and f"bad.yaml:{line}" in text for text in lines), (field, lines)
    assert "Traceback" not in done.stderr


def test_help_is_quick() -> None:
    windtunnel("--help")
    best = min(_timed("--help") for _ in range(3))
    assert best < 0.4


def _timed(*arguments: str) -> float:
    begin = time.perf_counter()
    assert windtunnel(*arguments).returncode == 0
    return time.perf_counter() - begin


def test_completion_is_offered() -> None:
    done = windtunnel("--help")
    assert "--install-completion" in done.stdout


def test_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m windtunnel.cli.main devices | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert "Traceback" not in done.stderr


def test_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((ROOT / "examples" / "first-prediction.ipynb").read_text())
    assert notebook["nbformat"] == 4
    monkeypatch.chdir(ROOT / "examples")
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["figure"].charts  # type: ignore[attr-defined]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser; scripts/install-browser")
def test_report_draws_in_a_browser(tmp_path: Path) -> None:
    report, page = tmp_path / "r.html", tmp_path / "page.html"
    assert windtunnel("train", "examples/llama3-70b-64xh100.yaml", "--report", str(report)).returncode == 0
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=8000",
        "--window-size=1400,2000",
        "--dump-dom",
    ]
    done = subprocess.run(
        ["chromium", *flags, f"file://{report}"], capture_output=True, text=True, timeout=120, check=True
    )
    page.write_text(done.stdout)
    canvases = [part.split(">")[0] for part in done.stdout.split("<canvas")[1:]]
    assert len(canvases) == 2
    assert all("height" in canvas for canvas in canvases)  # laid out: the events arrived and were unpacked
    assert done.stdout.count('<figure class="chart') == 1  # memory; breakdown and sensitivities are bars of tables
    assert done.stdout.count('class="minibar"') > 10
    assert "Uncaught" not in done.stderr
