"""Tools of the Model Context Protocol: small typed answers, files held below the root."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from windtunnel.mcp.records import MOST_BYTES, Answer
from windtunnel.mcp.tools import Tools

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 32},
    "plan": {"tp": 2, "mbs": 1},
}


def size(answer: Answer) -> int:
    """Bytes of an answer as it is sent."""
    return len(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False).encode())


def test_a_prediction_is_small_and_honest() -> None:
    answer = Tools().predict_training(SCENARIO)
    assert answer.ok and size(answer) <= MOST_BYTES
    assert (
        answer.interval is not None and answer.interval["low"] < answer.figures["step_time_s"] < answer.interval["high"]
    )
    assert answer.grade in ("fitted", "analytic") and answer.assumed


def test_full_detail_has_the_whole_result() -> None:
    answer = Tools().predict_training(SCENARIO, detail="full")
    assert answer.full is not None and answer.full["step_time_s"] > 0


def test_wrong_fields_are_problems_with_what_is_allowed() -> None:
    answer = Tools().predict_training({**SCENARIO, "modle": 1}, set={"plan.tp": 3})
    assert not answer.ok
    assert any(p.path == "modle" and p.nearest for p in answer.problems)


def test_yaml_text_is_a_scenario() -> None:
    assert Tools().scenario_validate("model: meta-llama/Llama-3.1-8B\ncluster: {device: h100-sxm-80gb}\n").ok
    assert not Tools().scenario_validate("model: meta-llama/Llama-3.1-8B\ncluster: {devize: h100}\n").ok


@pytest.mark.parametrize("path", ["/etc/hostname", "../secret.yaml", "link.yaml"])
def test_files_outside_the_root_are_not_read(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.yaml").write_text("model: x")
    (root / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    assert "--root" in Tools(root=root).predict_training(path).problems[0].allowed
    named = {**SCENARIO, "model": {"config": path}}
    assert any("--root" in p.allowed for p in Tools(root=root).predict_training(named).problems)
    if Path(path).is_absolute():
        assert any("--root" in p.allowed for p in Tools().predict_training(named).problems)


def test_a_file_below_the_root_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(SCENARIO))
    assert Tools(root=tmp_path).predict_training("a.json").ok


def test_nothing_is_written_without_leave(tmp_path: Path) -> None:
    answer = Tools(root=tmp_path).export_launch(SCENARIO, "megatron", folder="launch")
    assert not answer.ok and "--allow-write" in answer.problems[0].allowed
    assert not list(tmp_path.iterdir())
    texts = Tools().export_launch(SCENARIO, "megatron")
    assert texts.ok and "megatron.sh" in texts.files and "tensor-model-parallel-size" in texts.files["megatron.sh"]


@pytest.mark.slow
def test_launch_files_of_an_open_plan_are_those_of_the_plan_that_is_predicted(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from windtunnel.scenarios.source import FieldsInFolder
    from windtunnel.studio.worker import export

    large = {**SCENARIO, "model": "gpt3-13b", "training": {"seq_len": 2048, "global_batch": 16}}
    open_plan = {name: value for name, value in large.items() if name != "plan"}
    predicted = Tools().predict_training(open_plan, detail="full").full
    assert predicted is not None and predicted["plan"]["tp"] * predicted["plan"]["pp"] > 1
    script = Tools().export_launch(open_plan, "megatron").files["megatron.sh"]
    assert f"--tensor-model-parallel-size {predicted['plan']['tp']}" in script
    assert f"--pipeline-model-parallel-size {predicted['plan']['pp']}" in script
    studio = export(FieldsInFolder(open_plan, tmp_path), "megatron", None)
    assert studio["files"]["megatron.sh"] == script


def test_the_catalogue_is_searched() -> None:
    assert any(row["id"] == "h100-sxm-80gb" for row in Tools().catalog_search("h100 80gb", "devices").entries)
    assert Tools().catalog_search("bubble", "techniques").total > 0
    assert "@" in Tools().cite(["zero"]).text
    assert not Tools().cite(["zeroo"]).ok


def test_the_schema_comes_in_sections() -> None:
    assert "training" in json.loads(Tools().scenario_schema().text)["sections"]
    assert json.loads(Tools().scenario_schema("training").text)["$defs"]
    assert not Tools().scenario_schema("trainig").ok


@pytest.mark.slow
def test_a_sweep_runs_in_the_background_and_is_asked(tmp_path: Path) -> None:
    tools = Tools(root=tmp_path, allow_write=True)
    job = tools.sweep_start(SCENARIO, {"plan.tp": [1, 2, 4]}, "runs")
    deadline = time.monotonic() + 120
    while tools.job_status(job.id).state == "running" and time.monotonic() < deadline:
        time.sleep(0.5)
    assert tools.job_status(job.id).state == "done", tools.job_status(job.id).told
    found = tools.sweep_query("runs", ["x.plan.tp", "step_time_s"], {"status": "ok"}, "step_time_s")
    assert found.total == 3
    assert not tools.sweep_query("../x", []).ok
    tools.jobs.close()


@pytest.mark.slow
def test_a_job_is_cancelled() -> None:
    tools = Tools()
    job = tools.plan({**SCENARIO, "plan": {}, "cluster": {**SCENARIO["cluster"], "nodes": 512}})
    assert job.state == "running"
    assert tools.job_cancel(job.id).state == "cancelled"
    tools.jobs.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:1", "authorization": "Bearer t"}, 0),
        ({"host": "127.0.0.1:1"}, 401),
        ({"host": "evil.example", "authorization": "Bearer t"}, 421),
        ({"host": "127.0.0.1:1", "origin": "http://evil.example", "authorization": "Bearer t"}, 403),
    ],
)
def test_requests_are_refused_before_they_are_read(headers: dict[str, str], status: int) -> None:
    pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'windtunnel[mcp]'")
    from windtunnel.mcp.http import Guarded

    assert Guarded(None, "t", ("127.0.0.1:1",)).refusal(headers) == status


def test_the_server_has_the_tools() -> None:
    pytest.importorskip("mcp", reason="the protocol is an extra: pip install 'windtunnel[mcp]'")
    import asyncio

    from windtunnel.mcp.server import NAMES, build

    listed = asyncio.run(build(Tools()).list_tools())
    assert sorted(tool.name for tool in listed) == sorted(NAMES)
    assert all(tool.output_schema for tool in listed)
