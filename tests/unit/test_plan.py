"""`plan` as a user meets it: JSON keys, files, what cannot be, and what is spelt wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput, Infeasible
from windtunnel.planner.space import divisors
from windtunnel.specs.search import recompute_of

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B", "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "search": {"space": {"tp": [1, 2], "pp": [1, 2], "cp": [1], "mbs": [1, 2]}},
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "s.yaml"
    target.write_text(yaml.safe_dump(SCENARIO))
    return target


def test_json_has_the_contracts_keys(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {"best", "frontier", "evaluated", "pruned", "elapsed_s", "proof"} <= set(data)
    proof = data["proof"]
    assert proof["complete"] and proof["gap"] == 0.0
    counted = sum(data["pruned"].values()) + data["evaluated"]
    assert counted == proof["candidates"] > 10
    fit = [r["step_time_s"] for r in data["frontier"] if r["fits"]]
    assert data["best"]["step_time_s"] == proof["best_s"] == min(fit)


def test_the_written_scenario_trains(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = tmp_path / "best.yaml"
    assert run(["plan", str(path), "--output", str(best)]) == 0
    assert "nothing in the space is faster" in " ".join(capsys.readouterr().out.split())
    assert run(["train", str(best), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["memory_fits"] and result["step_time_s"] == api.plan(SCENARIO).proof.best_s
    assert run(["plan", str(path), "--output", str(path)]) == 2  # never over its own input


def test_an_axis_set_in_plan_is_kept() -> None:
    result = api.plan({**SCENARIO, "plan": {"mbs": 2}, "search": {"space": {"tp": [1, 2], "cp": [1]}}})
    assert {r.plan["mbs"] for r in result.frontier} == {2}
    assert result.best.plan["mbs"] == 2


def test_nothing_fits_names_the_nearest() -> None:
    with pytest.raises(Infeasible, match=r"none of .* plans fits .*; nearest miss: .* GiB with tp"):
        api.plan(SCENARIO, overrides=("search.limits.memory_fraction=0.1",))
    with pytest.raises(Infeasible, match="tp · cp · pp divides the devices"):
        api.plan(SCENARIO, overrides=("search.space.tp=[3]",))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("search.space.tpp=[1]", "tpp"),
        ("search.space.tp=[0]", "greater than 0"),
        ("search.space.recompute=[some]", "none, selective or full"),
        ("search.objective=speed", "objective"),
        ("search.space.nodes=[1,2]", "nodes"),
        ("search.limits.days=3", "days"),
        ("search.limits.memory_fraction=1.5", "memory_fraction"),
    ],
)
def test_bad_searches_are_refused(setting: str, message: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match=message):
        api.plan(SCENARIO, overrides=(setting,))
    assert run(["plan", str(path), "--set", setting]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_values_of_axes() -> None:
    assert divisors(12) == [1, 2, 3, 4, 6, 12]
    assert (recompute_of("full:4").policy, recompute_of("full:4").num_layers) == ("full", 4)


def test_the_best_plan_is_written_as_launch_files(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "launch"
    assert run(["plan", str(path), "--json", "--export", "megatron", "--export-dir", str(out)]) == 0
    data = json.loads(capsys.readouterr().out)
    script = (out / "megatron.sh").read_text("utf-8")
    assert f"--tensor-model-parallel-size {data['best']['plan']['tp']}" in " ".join(script.split())
    assert run(["plan", str(path), "--wrapper", "slurm"]) == 2  # says how, but not what


def test_a_free_search_says_how_far_the_written_plan_is() -> None:
    slow = {**SCENARIO, "plan": {"tp": 8, "mbs": 1, "zero": 1, "recompute": {"policy": "full"}}, "search": {}}
    result = api.plan(slow, free=True)
    assert result.written is not None and result.gain is not None
    assert result.written.plan["tp"] == 8 and result.best.plan["tp"] != 8
    assert result.best.step_time_s == pytest.approx(result.written.step_time_s * (1 - result.gain))
    assert result.gain > 0.1
    again = api.plan({**SCENARIO, "plan": result.scenario["plan"], "search": {}}, free=True)
    assert again.gain == 0.0  # the best plan is its own best
    assert api.plan(slow).best.plan["tp"] == 8  # without it, what the plan sets is kept
