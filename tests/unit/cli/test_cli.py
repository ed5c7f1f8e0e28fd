"""The command line in one process, the simulation replaced by a fixed result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from training_result import make_result

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.commands import train
from windtunnel.commands.base import SILENT, Listener
from windtunnel.errors import BadInput, Infeasible, Problem


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replaces the simulation; returns what it was called with."""
    seen: list[dict[str, Any]] = []

    def simulate(
        source: Any, overrides: Any = (), *, listener: Listener = SILENT, trace: bool = False, **_: Any
    ) -> Any:
        listener.planned(source, tuple(overrides))
        seen.append({"source": source, "overrides": tuple(overrides), "trace": trace})
        return make_result(trace=trace, m=8, slower=2.0 if "plan.tp=8" in overrides else 1.0)

    monkeypatch.setattr(train, "run", simulate)
    return seen


def out_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_train_prints_a_summary(calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "a.yaml", "--set", "plan.tp=2", "--set", "plan.pp=2", "--against", "3.0-3.2"]) == 0
    assert calls == [{"source": "a.yaml", "overrides": ("plan.tp=2", "plan.pp=2"), "trace": False}]
    out, err = capsys.readouterr()
    assert "Step time" in out
    assert "3 to 3.2 s" in out
    assert err == ""


def test_train_json_is_only_json(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace, report = tmp_path / "t.json", tmp_path / "r.html"
    assert run(["train", "a.yaml", "--json", "--trace", str(trace), "--report", str(report)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["num_devices"] == 64
    assert json.loads(trace.read_text())["traceEvents"]
    assert report.read_text().startswith("<!doctype html>")
    assert str(trace) in err
    assert calls[0]["trace"]


def test_train_reads_standard_input(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("model: gpt2\ncluster: dgx-h100\n"))
    assert run(["train", "-", "--json"]) == 0
    assert calls[0]["source"] == {"model": "gpt2", "cluster": "dgx-h100"}
    monkeypatch.setattr("sys.stdin", io.StringIO("a: [1\n"))
    assert run(["train", "-"]) == 2


def test_no_interval(calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "a.yaml", "--json", "--no-interval"]) == 0
    assert out_json(capsys)["interval"] is None
    assert run(["train", "a.yaml", "--no-interval"]) == 0
    assert "interval" not in capsys.readouterr().out


@pytest.mark.parametrize("value", ["0", "-3", "fast", "1-2-3", "nan", ""])
def test_against_must_be_seconds(value: str, calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "a.yaml", f"--against={value}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert not calls


def test_bad_input_is_one_line_a_problem(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [Problem("plan.tp", "must divide 64", 3, "4", "a.yaml", 7), Problem("model", "is not known", "x")]

    def simulate(*_: Any, **__: Any) -> Any:
        raise BadInput(problems)

    monkeypatch.setattr(train, "run", simulate)
    assert run(["train", "a.yaml", "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["exit_code"] == 2
    assert error["problems"][0] == {
        "file": "a.yaml",
        "line": 7,
        "field": "plan.tp",
        "value": 3,
        "message": "must divide 64",
        "hint": "did you mean '4'?",
    }
    assert err.splitlines() == [
        "error: plan.tp = 3: must divide 64; did you mean '4'? (a.yaml:7)",
        "error: model = x: is not known",
    ]


def test_infeasible_is_3_and_our_bug_is_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Exception] = [Infeasible("nothing fits", "tp 8 by 2 GiB"), ZeroDivisionError("x\ny " * 400)]

    def simulate(*_: Any, **__: Any) -> Any:
        raise raised[0]

    monkeypatch.setattr(train, "run", simulate)
    assert run(["train", "a.yaml"]) == 3
    assert capsys.readouterr().err == "error: nothing fits; nearest miss: tp 8 by 2 GiB\n"
    raised.pop(0)
    assert run(["train", "a.yaml"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert len(err) < 400
    assert "Traceback" not in err
    monkeypatch.setenv("WINDTUNNEL_DEBUG", "1")
    assert run(["train", "a.yaml"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_usage_errors_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train"]) == 2
    assert run(["trian", "a.yaml"]) == 2
    assert run(["train", "a.yaml", "--nonsense"]) == 2
    assert capsys.readouterr().out == ""
    assert run(["train", "a.yaml", "--nonsense", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["exit_code"] == 2 and "--nonsense" in error["problems"][0]["message"]


def test_every_verb_answers_in_json_where_its_input_is_bad(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("model: x\n")
    commands = [
        *([verb, "bad.yaml"] for verb in ("train", "serve", "fit", "plan", "advise", "explain", "check", "rerun")),
        ["compare", "bad.yaml", "nowhere.yaml"],
        ["measure", "bad.yaml", "--profile", "nowhere.yaml"],
        ["calibrate", "--from-logs", "nowhere.csv"],
        ["validate", "--rows", "nowhere.json"],
        ["import", "nowhere.json"],
        ["init", "new.yaml", "--model", "no-such-model"],
        ["models", "no-such-model"],
        ["devices", "no-such-device"],
        ["clusters", "no-such-cluster"],
        ["techniques", "show", "no-such-technique"],
        ["reproduce", "no-such-paper"],
    ]
    for words in commands:
        code = run([*words, "--json"])
        out, err = capsys.readouterr()
        error = json.loads(out)["error"]
        assert code == 2 == error["exit_code"], words
        assert error["problems"] and all(set(one) == set(_KEYS) for one in error["problems"]), words
        assert all(one["message"] for one in error["problems"]) and err, words


_KEYS = ("file", "line", "field", "value", "message", "hint")


def test_a_printed_result_stays_the_only_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "examples/does-not-fit-70b-8xh100.yaml", "--set", "plan.tp=1", "--json"]) == 3
    out, err = capsys.readouterr()
    assert "error" not in json.loads(out) and err.startswith("error: ")


def test_missing_files_are_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.yaml")
    for arguments in (["train", missing], ["fit", missing], ["explain", missing], ["rerun", str(tmp_path / "no.json")]):
        assert run(arguments) == 2, arguments
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "missing.yaml" in err or "no.json" in err


def test_unwritable_output_is_2(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["train", "a.yaml", "--report", str(tmp_path / "no" / "r.html")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_compare_with_overrides(calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "a.yaml", "--set", "plan.tp=8", "--json"]) == 0
    assert [call["overrides"] for call in calls] == [(), ("plan.tp=8",)]
    data = out_json(capsys)
    assert next(iter(data["seconds_by_class"])) == "exposed tp"
    assert run(["compare", "a.yaml"]) == 2


@pytest.mark.slow
def test_compare_and_explain_read_stored_results(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(json.dumps(make_result(trace=False, m=8).to_dict()))
    b.write_text(json.dumps(make_result(trace=False, m=8, slower=2.0).to_dict(curves=True)))
    assert run(["compare", str(a), str(b), "--json"]) == 0
    assert out_json(capsys)["step_time_ratio"] > 1
    assert run(["explain", str(a), "--against", "4", "--json"]) == 0
    assert out_json(capsys)["against_s"] == 4
    assert not calls
    assert run(["explain", str(a), "--set", "plan.tp=1"]) == 2
    b.write_text('{"step_time_s": 1}')
    assert run(["compare", str(a), str(b)]) == 2
    b.write_text('{"step_time_s": ')
    assert run(["compare", str(a), str(b)]) == 2


def test_rerun_says_whether_it_is_equal(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    data = make_result(trace=False, m=8).to_dict()
    file.write_text(json.dumps(data | {"simulated_in_s": 99.0}))
    assert run(["rerun", str(file), "--json"]) == 0
    assert out_json(capsys)["equal"]
    assert calls[0]["source"] == data["scenario"]
    changed = dict(data["breakdown"], bubble=data["breakdown"]["bubble"] * (1 + 1e-8))
    file.write_text(json.dumps(data | {"breakdown": changed}))
    assert run(["rerun", str(file), "--json"]) == 4
    assert [d["field"] for d in out_json(capsys)["differences"]] == ["breakdown.bubble"]
    del data["breakdown"]["bubble"]
    file.write_text(json.dumps(data))
    assert run(["rerun", str(file)]) == 4
    file.write_text("[]")
    assert run(["rerun", str(file)]) == 2


def test_rerun_refuses_a_scenario_that_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(make_result(trace=False, m=8).to_dict() | {"scenario": [[1]]}))
    assert run(["rerun", str(file)]) == 2
    assert "no scenario in it" in capsys.readouterr().err


def test_rerun_accepts_every_form_of_train_json(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    for options in ([], ["--no-interval"], ["--curves"], ["--against", "3"]):
        assert run(["train", "a.yaml", "--json", *options]) == 0
        file.write_text(capsys.readouterr().out)
        assert run(["rerun", str(file)]) == 0, options
        capsys.readouterr()


@pytest.mark.slow
def test_init_writes_a_scenario_that_loads(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from windtunnel.scenarios.load import load_scenario

    file = tmp_path / "my.yaml"
    assert run(["init", str(file), "--nodes", "2", "--model", "gpt2"]) == 0
    scenario = load_scenario(file)
    assert scenario.model == "openai-community/gpt2"
    assert scenario.training is not None
    assert scenario.training.global_batch == 16
    before = file.read_text()
    assert run(["init", str(file)]) == 2
    assert file.read_text() == before
    assert run(["init", str(file), "--force"]) == 0
    assert file.read_text() != before
    assert run(["init", str(tmp_path / "b.yaml"), "--model", "no such model at all"]) == 2
    assert not (tmp_path / "b.yaml").exists()


@pytest.mark.parametrize("verb", ["models", "devices", "clusters"])
def test_catalogue_lists(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--json"]) == 0
    listed = out_json(capsys)
    assert listed
    assert run([verb]) == 0
    capsys.readouterr()
    one = listed[0].get("id") or listed[0]["name"]
    assert run([verb, one]) == 0
    assert one in capsys.readouterr().out
    assert run([verb, one, "--json"]) == 0
    assert out_json(capsys)
    assert run([verb, "zzz-no-such-thing"]) == 2


def test_device_shows_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["devices", "h100-sxm-80gb"]) == 0
    out = capsys.readouterr().out
    assert "3,350 GB/s" in out
    assert "data sheet" in out


def test_techniques_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["techniques", "--json"]) == 0
    listed = out_json(capsys)
    assert set(listed[0]) == {"id", "family", "acts_on", "status", "paper", "levels", "relieves", "summary"}
    assert run(["techniques", "list", "--json"]) == 0
    assert out_json(capsys) == listed
    one = listed[0]["id"]
    assert run(["techniques", "show", one]) == 0
    assert one in capsys.readouterr().out
    assert run(["techniques", "cite", one]) == 0
    assert capsys.readouterr().out.startswith("@article{")
    assert run(["techniques", "search", one, "--json"]) == 0
    assert one in [found["id"] for found in out_json(capsys)]
    assert run(["techniques", "show", one + "x"]) == 2
    assert one in capsys.readouterr().err


def test_import_prints_a_model_block(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "tiny" / "config.json"
    config.parent.mkdir()
    fields = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 100,
        "architectures": ["LlamaForCausalLM"],
    }
    config.write_text(json.dumps(fields))
    assert run(["import", str(config), "--json"]) == 0
    data = out_json(capsys)
    assert data["name"] == "tiny"
    assert data["hidden_size"] == 64
    assert run(["import", str(config), "-o", str(tmp_path / "m.yaml")]) == 0
    assert (tmp_path / "m.yaml").read_text().startswith("model:")


def test_validate_gates(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "row_kind": "training",
        "family": "f",
        "device": "d",
        "metric": "step_time_s",
        "n": 3,
        "n_predicted": 2,
        "mape": 0.2,
        "median_ape": 0.1,
        "bias": -0.2,
        "coverage80": 0.5,
        "mean_relative_width": 0.3,
    }
    monkeypatch.setattr(api, "validate", lambda *_, **__: {"rows": [], "summary": [entry]})
    assert run(["validate", "--json"]) == 0
    assert out_json(capsys)["summary"][0]["mape"] == 0.2
    assert run(["validate", "--gate", "mape=0.25", "--gate", "coverage80=0.4"]) == 0
    capsys.readouterr()
    assert run(["validate", "--gate", "mape=0.12"]) == 4
    assert "mape = 0.2000 is beyond 0.12" in capsys.readouterr().err
    assert run(["validate", "--gate", "bias=0.1"]) == 4
    assert run(["validate", "--gate", "coverage80=0.7"]) == 4
    assert run(["validate", "--gate", "speed=1", "--gate", "mape=x"]) == 2
    assert capsys.readouterr().err.count("error: --gate") == 2


def test_progress_is_silent_when_quick_and_never_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    from windtunnel.cli.output import progress

    with progress("working") as advance:
        advance(1, 2)
    assert capsys.readouterr() == ("", "")


def test_completion_of_names() -> None:
    from windtunnel.cli import complete

    assert "h100-sxm-80gb" in complete.devices("H100")
    assert complete.devices("zzz") == []
    assert "meta-llama/Llama-3.1-70B" in complete.models("meta-llama/")
    assert complete.techniques("") == sorted(complete.techniques(""))
    assert all(name.startswith("dgx") for name in complete.clusters("dgx"))
    assert complete.papers("")


def test_validate_without_rows_is_bad_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "validate", lambda *_, **__: {"rows": [], "summary": []})
    assert run(["validate", "--family", "nope", "--json"]) == 2
    out, err = capsys.readouterr()
    assert err == "error: validate: no rows of family nope\n"
    assert json.loads(out)["error"]["problems"][0]["message"] == "validate: no rows of family nope"
