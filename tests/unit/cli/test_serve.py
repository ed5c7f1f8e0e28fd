"""Verbs around `serve`: the examples, init --serving, rerun and compare of its results."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario
from windtunnel.serving.results.serving_result import ServingResult

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "serving").glob("*.yaml"))
SMALL = ["serving.traffic.num_requests=200", "serving.traffic.warmup_requests=0"]


def out_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@cache
def served(file: Path) -> ServingResult:
    return api.simulate_serving(file)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_examples_have_a_steady_state_and_meet_their_objective(file: Path) -> None:
    result = served(file)
    assert result.completed == result.requests >= 500 and not result.saturated and not result.warnings
    assert result.slo_met and result.slo_attainment > 0.9
    assert result.scenario_name in (file.stem, f"serve-{file.stem}")
    assert result.kv_cache_usage_max < 1.0 and result.bound_by
    assert result.goodput_requests_per_s == pytest.approx(result.slo_attainment * result.throughput_requests_per_s)


def test_examples_show_what_they_are_about() -> None:
    by = {f.stem.split("-")[0]: served(f) for f in EXAMPLES}
    assert len(by) >= 4
    chat, long, trace = by["chat"], by["long"], by["trace"]
    assert chat.instances == 2 and chat.record.requests.follow.max() > 0
    assert chat.record.requests.input_tokens.mean() > 1.2 * 500, "turns grow on the turns before them"
    groups = chat.record.requests.group
    of_group = {int(g): set(chat.record.requests.instance[groups == g]) for g in groups[:50]}
    assert all(len(homes) == 1 for homes in of_group.values()), "a conversation stays on its instance"
    assert 14_000 < long.record.requests.input_tokens.mean() < 18_000
    assert long.composition["decode iteration"]["expert weights"] > 0
    assert long.composition["iteration with prompts"]["attention of prompts"] > 0
    assert trace.requests == 600 and trace.record.requests.prefix_blocks is not None


def test_init_writes_a_scenario_that_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    assert run(["init", str(file), "--serving", "--model", "Qwen/Qwen3-30B-A3B", "--devices-per-node", "4"]) == 0
    assert f"next: windtunnel serve {file}" in capsys.readouterr().err
    scenario = load_scenario(file)
    assert scenario.training is None and scenario.serving is not None
    assert scenario.serving.pools[0].plan.tp == 1  # 57 GiB of weights leave room for a cache on one device
    assert run(["serve", str(file), "--set", SMALL[0], "--json"]) == 0
    assert out_json(capsys)["completed"] == 200
    for line in file.read_text(encoding="utf-8").splitlines():
        key = line.strip().removeprefix("# ").split(":")[0]
        if line.strip().startswith("# ") and key in ("limits", "kv", "precision", "policy", "router"):
            assert run(["init", str(tmp_path / "o.yaml"), "--serving", "--force"]) == 0
            text = (tmp_path / "o.yaml").read_text(encoding="utf-8")
            opened = "\n".join(
                x.replace("# ", "", 1) if x.strip().startswith(f"# {key}:") else x for x in text.split("\n")
            )
            (tmp_path / "o.yaml").write_text(opened, encoding="utf-8")
            assert load_scenario(tmp_path / "o.yaml").serving is not None


def test_rerun_says_whether_a_stored_run_is_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    arguments = [w for s in SMALL for w in ("--set", s)]
    assert run(["serve", str(next(f for f in EXAMPLES if f.stem == "llama3-70b-4xh100")), *arguments, "--json"]) == 0
    stored = out_json(capsys)
    file.write_text(json.dumps(stored), encoding="utf-8")
    assert run(["rerun", str(file), "--json"]) == 0
    assert out_json(capsys)["equal"]
    stored["ttft_s"]["p99"] *= 1.001
    file.write_text(json.dumps(stored), encoding="utf-8")
    assert run(["rerun", str(file), "--json"]) == 4
    assert [d["field"] for d in out_json(capsys)["differences"]] == ["ttft_s.p99"]


def test_compare_says_what_changes_and_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = str(next(f for f in EXAMPLES if f.stem == "llama3-70b-4xh100"))
    more = ["--set", "serving.pools[0].plan.tp=8"]
    assert run(["compare", own, *more, "--json"]) == 0
    data = out_json(capsys)
    figures = data["figures"]
    assert figures["num_devices"] == {"a": 4, "b": 8, "ratio": 2} and figures["tpot_s.p50"]["ratio"] < 0.8
    assert data["iterations"]["decode iteration"]["weights"] < 0
    assert data["scenario"] == {"serving.pools.0.plan.tp": [4, 8]}
    assert run(["compare", own, *more]) == 0
    text = capsys.readouterr().out
    assert "TTFT p50" in text and "What differs" in text and "Mean decode iteration" in text
    file = tmp_path / "r.json"
    file.write_text(json.dumps(api.simulate_serving(own).to_dict()), encoding="utf-8")
    assert run(["compare", str(file), own, "--json"]) == 0
    assert all(f["ratio"] in (1, None) for f in out_json(capsys)["figures"].values())


def test_serving_is_not_compared_with_training(capsys: pytest.CaptureFixture[str]) -> None:
    training = str(EXAMPLES[0].parents[1] / "llama3-8b-8xh100-fsdp.yaml")
    for pair in ([str(EXAMPLES[0]), training], [training, str(EXAMPLES[0])]):
        assert run(["compare", *pair]) == 2
        assert "not a scenario of serving" in capsys.readouterr().err


def test_settings_reach_into_lists_by_either_spelling() -> None:
    for path in ("serving.pools[0].plan.tp=8", "serving.pools.0.plan.tp=8"):
        scenario = load_scenario(next(f for f in EXAMPLES if f.stem == "llama3-70b-4xh100"), [path])
        assert scenario.serving is not None and scenario.serving.pools[0].plan.tp == 8
    with pytest.raises(BadInput, match="no such field"):
        load_scenario(next(f for f in EXAMPLES if f.stem == "llama3-70b-4xh100"), ["serving.pools[7].plan.tp=8"])


def test_a_comparison_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, report = str(next(f for f in EXAMPLES if f.stem == "llama3-70b-4xh100")), tmp_path / "r.html"
    assert (
        run(["compare", own, "--set", "serving.pools[0].plan.tp=8", "--set", "name=<i>", "--report", str(report)]) == 0
    )
    text = re.sub(r"<script.*?</script>", "", report.read_text(encoding="utf-8"), flags=re.S)
    assert "&lt;i&gt;" in text and "<i>" not in text.replace("<i style", "")
    for word in (
        "Latencies",
        "Figures",
        "What differs",
        "Where an iteration&#x27;s time goes",
        "serving.pools.0.plan.tp",
    ):
        assert word in text, word
    assert text.count('<figure class="chart') == 4


def test_options_that_do_not_go_together_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    own = str(next(f for f in EXAMPLES if f.stem == "llama3-70b-4xh100"))
    assert run(["serve", own, "--points", "4", "--linear", "--requests", "x.xlsx"]) == 2
    err = capsys.readouterr().err
    assert err.count("error:") == 3 and ".csv, .json, .parquet" in err and "--linear: is read with --sweep" in err
    assert run(["serve", own, "--sweep", "rate=1..2", "--trace", "t.json", "--requests", "r.csv"]) == 2
    assert capsys.readouterr().err.count("leave it out with --sweep") == 2
