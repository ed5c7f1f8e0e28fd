"""What a newcomer meets first: hints, gates, the schema, a scenario that fits, a self-check."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import windtunnel
from windtunnel.cli.main import run

BAD = """\
model: foo/bar
cluster: {device: h200x, nodes: 1, devices_per_node: 8}
training: {seq_len: 8x, global_batch: 8, framework: megatron_coer, lr: 0.1}
plan: {tensor_model_parallel_size: 2}
"""
SMALL = """\
model: openai-community/gpt2
cluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 2}
training: {seq_len: 1024, global_batch: 16}
plan: {tp: 2, mbs: 4}
"""


def test_problems_of_all_sections_are_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(BAD)
    assert run(["train", str(tmp_path / "s.yaml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    for field in ("seq_len", "framework", "lr", "tensor_model_parallel_size", "model = foo/bar", "cluster.device"):
        assert any(field in line and "s.yaml:" in line for line in lines), field


@pytest.mark.parametrize(
    "written, hint",
    [
        ("training: {framework: megatron_coer}", "did you mean 'megatron_core'?"),
        ("plan: {tensor_model_parallel_size: 2}", "did you mean 'tp'?"),
        ("plan: {pipeline_parallel_size: 2}", "did you mean 'pp'?"),
        ("training: {train_batch_size: 2}", "did you mean 'global_batch'?"),
    ],
)
def test_words_of_other_programs_are_understood(
    written: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = yaml.safe_load(SMALL)
    for section, fields in yaml.safe_load(written).items():
        data[section] |= fields
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(data))
    assert run(["train", str(tmp_path / "s.yaml")]) == 2
    assert hint in capsys.readouterr().err


def test_short_names_get_no_far_fetched_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(SMALL.replace("global_batch: 16", "global_batch: 16, lr: 0.1"))
    assert run(["train", str(tmp_path / "s.yaml")]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_a_bracket_that_is_not_closed_is_named_where_it_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text("model: a\ncluster: {device: h100\ntraining: {seq_len: 1}\n")
    assert run(["train", str(tmp_path / "s.yaml")]) == 2
    assert "'{' is not closed" in (error := capsys.readouterr().err) and "s.yaml:2" in error


def test_models_lists_what_contains_a_part_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "qwen3", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert len(names) > 5 and all("qwen3" in name.casefold() for name in names)


def test_a_table_as_parquet_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("windtunnel.cli.serve")
    from windtunnel.cli.serve import _has_parquet

    if _has_parquet():
        pytest.skip("a Parquet writer is installed")
    assert run(["serve", "examples/serving/llama3-70b-4xh100.yaml", "--requests", str(tmp_path / "r.parquet")]) == 2
    assert "needs pyarrow" in capsys.readouterr().err


def test_check_passes_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SMALL)
    assert run(["check", str(tmp_path), "--require", "fits, step_time_s<=10"]) == 0
    capsys.readouterr()
    assert run(["check", str(file), "--require", "step_time_s<=1e-9", "--json"]) == 4
    outcome = json.loads(capsys.readouterr().out)["outcomes"][0]
    assert not outcome["passed"] and outcome["value"] > 1e-9


def test_check_holds_predictions_to_a_baseline(tmp_path: Path) -> None:
    file, baseline = tmp_path / "s.yaml", tmp_path / "b.json"
    file.write_text(SMALL)
    assert run(["check", str(file), "--baseline", str(baseline)]) == 0
    assert run(["check", str(file), "--baseline", str(baseline)]) == 0
    file.write_text(SMALL.replace("global_batch: 16", "global_batch: 32"))
    assert run(["check", str(file), "--baseline", str(baseline)]) == 4


def test_check_reads_jobs_alone_as_cluster_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = "examples/cluster/cluster-day.yaml"
    assert run(["cluster", file, "--json"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert run(["check", file, "--require", "jct_s.mean<=1e9, utilisation>=0", "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert [one["value"] for one in outcomes] == [own["jct_s"]["mean"], own["utilisation"]]
    assert run(["check", file, "--require", "makespan_s<=1"]) == 4
    assert run(["check", file, "--require", "fits"]) == 4
    baseline = tmp_path / "b.json"
    assert run(["check", file, "--baseline", str(baseline)]) == 0
    assert run(["check", file, "--baseline", str(baseline), "--set", "jobs.policy=srtf"]) == 4


def test_check_refuses_conditions_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(SMALL)
    assert run(["check", str(tmp_path), "--require", "fast, step_time_s = 3"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_schema_offers_names_and_accepts_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    model = json.loads(capsys.readouterr().out)["properties"]["model"]["anyOf"]
    forms = next(form["anyOf"] for form in model if "anyOf" in form)
    assert "meta-llama/Llama-3.1-8B" in forms[0]["enum"] and forms[1] == {"type": "string"}


def test_init_writes_a_plan_that_fits(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    options = ["--model", "meta-llama/Llama-3.1-8B", "--nodes", "1", "--seq-len", "4096", "--global-batch", "64"]
    assert run(["init", str(file), *options]) == 0
    assert "yaml-language-server" not in file.read_text()  # no schema stands beside it
    assert run(["check", str(file), "--require", "fits"]) == 0


def test_init_takes_a_config_file(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub/config.json").write_text(
        '{"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16,'
        ' "intermediate_size": 2816, "vocab_size": 32000}'
    )
    file = tmp_path / "s.yaml"
    assert run(["init", str(file), "--model", str(tmp_path / "hub/config.json")]) == 0
    assert yaml.safe_load(file.read_text())["model"] == {"config": "hub/config.json"}
    assert run(["train", str(file)]) == 0


def test_init_serving_takes_the_fewest_devices_that_hold_the_model(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    assert run(["init", str(file), "--serving", "--model", "meta-llama/Llama-3.1-8B"]) == 0
    assert yaml.safe_load(file.read_text())["serving"]["pools"][0]["plan"]["tp"] == 1


def test_doctor_finds_a_working_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(check["ok"] for check in found["checks"]) and found["packages"]["numba"]


def test_help_has_headings(capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    from windtunnel.cli.main import VERBS, app

    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"{heading}:" in text for heading in VERBS) and "Other:" not in text
    assert set(typer.main.get_command(app).commands) == {name for names in VERBS.values() for name in names}


NO_PLAN = "\n".join(line for line in SMALL.splitlines() if not line.startswith("plan")) + "\n"


def test_train_without_a_plan_takes_the_recommendation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(NO_PLAN)
    assert run(["plan", str(tmp_path / "s.yaml"), "--json", "--no-why"]) == 0
    best_s = json.loads(capsys.readouterr().out)["best"]["step_time_s"]
    assert run(["train", str(tmp_path / "s.yaml"), "--json"]) == 0
    shown = capsys.readouterr()
    assert "left to the planner, which recommends" in shown.err
    assert json.loads(shown.out)["step_time_s"] <= 1.1 * best_s


def test_auto_leaves_one_axis_to_the_planner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(SMALL)
    assert run(["train", str(tmp_path / "s.yaml"), "--set", "plan.tp=auto", "--json"]) == 0
    shown = capsys.readouterr()
    assert "left to the planner" in shown.err and json.loads(shown.out)["plan"]["mbs"] == 4


def test_plan_of_a_scenario_that_sets_every_axis_searches_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(
        SMALL.replace("{tp: 2, mbs: 4}", "{tp: 2, pp: 1, vpp: 1, cp: 1, ep: 1, zero: 1, mbs: 4, recompute: none}")
    )
    assert run(["plan", str(tmp_path / "s.yaml"), "--json", "--no-why"]) == 0
    shown = capsys.readouterr()
    assert "sets every axis" in shown.err and json.loads(shown.out)["proof"]["candidates"] > 1


STATED = "{tp: 2, pp: 1, vpp: 1, cp: 1, ep: 1, zero: 1, mbs: 4, recompute: none}"


@pytest.mark.parametrize("limit", ["memory_fraction=0.5", "memory_fraction=0.04", "power='1 MW'"])
def test_a_limit_narrows_a_search_and_fixes_no_axis(
    limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(SMALL.replace("{tp: 2, mbs: 4}", STATED))
    counts = []
    for settings in ([], ["--set", f"search.limits.{limit}"]):
        assert run(["plan", str(tmp_path / "s.yaml"), "--json", "--no-why", *settings]) == 0
        counts.append(json.loads(capsys.readouterr().out)["proof"]["candidates"])
    assert counts[0] == counts[1] > 1


def test_a_plan_that_keeps_axes_and_misses_a_limit_names_the_axes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(SMALL)
    assert run(["plan", str(tmp_path / "s.yaml"), "--set", "search.limits.memory_fraction=0.01"]) == 3
    assert "the plan states tp, mbs: --free searches these too" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "train"])
def test_a_layout_larger_than_the_cluster_says_so(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(SMALL)
    assert run([command, str(tmp_path / "s.yaml"), "--set", "plan.tp=4"]) in (2, 3)
    shown = capsys.readouterr().err
    assert "tp 4 · pp 1 · cp 1 = 4" in shown and "is more than the 2 devices" in shown


def test_fit_names_settings_that_make_the_plan_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "examples/does-not-fit-70b-8xh100.yaml", "--json"]) == 3
    shown = capsys.readouterr()
    changes = json.loads(shown.out)["changes"]
    assert {"settings": ["plan.recompute=full"], "devices": 32} in changes
    assert "plan.recompute=full fits on 32 devices" in shown.err
    settings = [x for change in changes for x in change["settings"] if change["devices"] == 16]
    given = [
        part for setting in [*settings, "cluster.nodes=2", "training.global_batch=16"] for part in ("--set", setting)
    ]
    assert run(["check", "examples/does-not-fit-70b-8xh100.yaml", "--require", "fits", *given]) == 0


def test_python_dash_m_runs_the_command_line() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "windtunnel", "--version"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == windtunnel.__version__
