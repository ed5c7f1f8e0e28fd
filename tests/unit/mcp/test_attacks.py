"""What a caller may not do: read, write or run anything that the server was not started for."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from windtunnel.mcp.records import Answer
from windtunnel.mcp.tools import Tools

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 32},
    "plan": {"tp": 2, "mbs": 1},
}
SECRET = "secret_key_of_somebody"
CONFIG = '{"model_type": "llama", "hidden_size": 64}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder for tools, and next to it a file that they must not touch."""
    (tmp_path / "outside.yaml").write_text(f"{SECRET}: {SECRET}\n")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize(
    "options",
    [
        {"output": "OUTSIDE"},
        {"force": "--output=OUTSIDE"},
        {"name": "x", "o": "OUTSIDE"},
        {"-o": "OUTSIDE"},
        {"trust": ""},
        {"input": ["--output=OUTSIDE"]},
        {"with": "transformers"},
        {"device": {"a": 1}},
    ],
)
def test_options_of_import_are_a_list_of_allowed_ones(root: Path, options: dict[str, Any]) -> None:
    outside = root.parent / "outside.yaml"
    given = {
        name: [v.replace("OUTSIDE", str(outside)) for v in value]
        if isinstance(value, list)
        else value.replace("OUTSIDE", str(outside))
        if isinstance(value, str)
        else value
        for name, value in options.items()
    }
    before = outside.read_text()
    answer = Tools(root=root).import_config(CONFIG, options=given)
    assert not answer.ok and outside.read_text() == before
    assert any(p.path and p.path.startswith("options.") for p in answer.problems)


def test_a_value_of_an_option_is_no_option(root: Path) -> None:
    outside = root.parent / "new.yaml"
    answer = Tools(root=root).import_config(CONFIG, options={"name": f"--output={outside}"})
    assert not outside.exists(), answer


def test_a_model_that_import_names_is_held_to_the_text(root: Path) -> None:
    (root.parent / "config.json").write_text('{"model_type": "llama", "' + SECRET + '": 1}')
    script = "torchrun --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 2\n"
    answer = Tools(root=root).import_config(
        script, "run.sh", {"model": str(root.parent / "config.json"), "device": "h100-sxm-80gb"}
    )
    assert not answer.ok and SECRET not in answer.model_dump_json()


@pytest.mark.parametrize("name", ["yaml.py", "json.py", "../../x.sh", "/etc/x.yaml", "-o", "", ".."])
def test_a_name_of_a_text_is_a_name_and_its_text_never_runs(root: Path, name: str) -> None:
    code = f"open({str(root / 'ran')!r}, 'w').close()\n"
    Tools(root=root).import_config(code, name)
    assert not (root / "ran").exists()
    assert sorted(os.listdir(root.parent)) == ["outside.yaml", "root"]


WAYS: list[dict[str, Any]] = [
    {"cluster.device": "OUTSIDE"},
    {"cluster.device=OUTSIDE #": 1},
    {"cluster": {"device": "OUTSIDE", "nodes": 1}},
    {"model": {"config": "OUTSIDE"}},
    {"cluster.device": "LONG"},
    {"cluster.device": "../outside.yaml"},
    {"cluster.device": "link.yaml"},
    {"run": {"tokens": 1e9, "failures": "OUTSIDE"}},
]


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("tool", ["scenario_validate", "export_launch", "predict_training", "run"])
def test_no_setting_reads_outside_the_root(root: Path, tool: str, settings: dict[str, Any]) -> None:
    outside = str(root.parent / "outside.yaml")
    (root / "link.yaml").symlink_to(outside)

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {put(k): put(v) for k, v in value.items()}
        return (
            value.replace("OUTSIDE", outside).replace("LONG", "/" + "./" * 2500 + outside[1:])
            if isinstance(value, str)
            else value
        )

    tools = Tools(root=root)
    more = {"target": "megatron"} if tool == "export_launch" else {}
    answer = getattr(tools, tool)(SCENARIO, set=put(settings), **more)
    assert not answer.ok or tool == "scenario_validate"  # which does not open a model's config
    told = answer.model_dump_json()
    assert SECRET not in told and "root:" not in told
    assert not Tools().predict_training(SCENARIO, set=put(settings)).ok


def test_what_a_side_file_holds_is_not_repeated(root: Path) -> None:
    (root / "notes.yaml").write_text(f"{SECRET}: {SECRET}\n")
    answer = Tools(root=root).scenario_validate(SCENARIO, set={"cluster.device": "notes.yaml"})
    assert not answer.ok and SECRET not in answer.model_dump_json()
    assert answer.problems[0].path == "cluster.device"


def test_a_pipe_does_not_hang(root: Path) -> None:
    os.mkfifo(root / "pipe.yaml")
    for answer in (
        Tools(root=root).predict_training("pipe.yaml"),
        Tools(root=root).predict_training(SCENARIO, set={"cluster.device": "pipe.yaml"}),
    ):
        assert not answer.ok


@pytest.mark.parametrize("folder", ["../x", "/tmp/x-of-windtunnel-tests", "link", "link/x", ""])
def test_nothing_is_written_outside_the_root(root: Path, folder: str) -> None:
    (root / "link").symlink_to(root.parent)
    tools = Tools(root=root, allow_write=True)
    before = sorted(os.listdir(root.parent))
    if folder:
        assert not tools.export_launch(SCENARIO, "megatron", folder=folder).ok
        assert not tools.sweep_start(SCENARIO, {"plan.tp": [1]}, folder).ok
    (root / "launch").mkdir()
    (root / "launch" / "megatron.sh").symlink_to(root.parent / "planted")
    tools.export_launch(SCENARIO, "megatron", folder="launch")
    assert sorted(os.listdir(root.parent)) == before and not tools.jobs.known


@pytest.mark.slow
def test_a_job_imports_nothing_from_the_folder_and_reads_nothing_outside(root: Path) -> None:
    (root / "yaml.py").write_text(f"open({str(root / 'ran')!r}, 'w').close()\n")
    tools = Tools(root=root, allow_write=True)
    outside = str(root.parent / "outside.yaml")
    jobs = [
        tools.sweep_start(SCENARIO, {"cluster.device": [outside, "h100-sxm-80gb"]}, "a"),
        tools.plan(SCENARIO, set={"cluster.device": outside}),
    ]
    deadline = time.monotonic() + 200
    for job in jobs:
        while tools.job_status(job.id).state == "running" and time.monotonic() < deadline:
            time.sleep(0.3)
        assert tools.job_status(job.id).state != "running"
        assert SECRET not in tools.job_status(job.id).model_dump_json()
    assert not (root / "ran").exists()
    found = tools.sweep_query("a", ["status", "reason"])
    assert SECRET not in found.model_dump_json()
    tools.jobs.close()


def test_an_error_of_our_own_repeats_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("windtunnel.mcp.tools.answered", fails)
    answer = Tools(root=root).predict_training(SCENARIO)
    assert not answer.ok and SECRET not in answer.model_dump_json() and "RuntimeError" in answer.problems[0].allowed


@pytest.mark.parametrize("allowed", [False, True])
def test_a_process_of_the_server_has_the_leave_of_the_server(
    root: Path, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windtunnel.mcp import worker

    seen: list[Tools] = []

    def validated(self: Tools, **_: Any) -> Any:
        seen.append(self)
        return Answer(ok=True)

    monkeypatch.setattr(Tools, "scenario_validate", validated)
    question = {"root": str(root), "allow_write": allowed, "allow_code": allowed, "tool": "scenario_validate"}
    assert worker.answer({**question, "arguments": {}})["ok"]
    assert (seen[0].allow_write, seen[0].allow_code, seen[0].root) == (allowed, allowed, root)


def test_a_launch_file_that_lacks_something_is_told_by_its_problems_alone(root: Path) -> None:
    answer = Tools(root=root).import_config("vllm serve nope --tensor-parallel-size 2\n", "run.sh")
    assert [problem.allowed.split(":")[0] for problem in answer.problems] == ["the model = nope", "--device"]


def test_allowed_options_of_import_are_options_of_the_command() -> None:
    import typer

    from windtunnel.cli.main import app
    from windtunnel.mcp import tools

    command: Any = typer.main.get_command(app)
    known = {text for parameter in command.commands["import"].params for text in parameter.opts}
    assert {f"--{name.replace('_', '-')}" for name in tools._IMPORT_OPTIONS} <= known
    assert not {"--output", "--force", "--trust", "--with"} & {f"--{name}" for name in tools._IMPORT_OPTIONS}


NO_TEXT = ("a\0b", "\ud800", "x" * 5000)


@pytest.mark.parametrize("text", NO_TEXT, ids=["zero byte", "half of a pair", "long"])
def test_what_is_no_text_of_a_system_is_a_problem_wherever_it_stands(root: Path, text: str) -> None:
    (root / "plan.yaml").write_text(json.dumps(SCENARIO))
    tools = Tools(root, allow_write=True)
    scenario = {"model": "meta-llama/Llama-3.1-8B", "cluster": {"device": text}}
    try:
        answers = [
            tools.scenario_validate(text),
            tools.scenario_validate(scenario),
            tools.scenario_validate({"model": text}),
            tools.predict_training("plan.yaml", {text: 1}),
            tools.import_config("torchrun", options={"model": text}),
            tools.import_config("torchrun", options={text: "x"}),
            tools.export_launch("plan.yaml", text),
            tools.export_launch("plan.yaml", "torchtitan", folder=text),
            tools.sweep_start("plan.yaml", {"plan.tp": "1"}, text),
            tools.sweep_start("plan.yaml", {text[:100]: [1]}, "rows") if len(text) < 100 else None,
            tools.sweep_query(text, ["cell"]),
            tools.plan("plan.yaml", {"name": text}) if len(text) < 100 else None,
            tools.job_status(text),
            tools.job_cancel(text),
        ]
    finally:
        tools.jobs.close()
    for answer in filter(None, answers):
        told = json.dumps(answer.model_dump(mode="json"), ensure_ascii=False)
        assert not answer.ok or getattr(answer, "id", ""), told
        assert "internal error" not in told
        told.encode()


def test_a_fifth_job_is_told_why_it_does_not_start(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windtunnel.mcp.jobs.MOST_JOBS", 0)
    (problem,) = Tools(root).plan({"model": "x"}).problems
    assert "jobs are running" in problem.allowed


def test_a_name_that_no_command_would_find_is_not_valid(root: Path) -> None:
    tools = Tools(root)
    assert tools.scenario_validate(SCENARIO).ok
    for field, value in (
        ("cluster.device", "h100-sxm-80g"),
        ("model", "meta-llama/Llama-9-8B"),
        ("cluster", "nowhere"),
    ):
        answer = tools.scenario_validate(SCENARIO, {field: value})
        assert not answer.ok and answer.problems[0].path == field
