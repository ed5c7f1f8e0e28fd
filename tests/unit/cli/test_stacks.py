"""`windtunnel stacks`: what it lists, in tables and as JSON."""

from __future__ import annotations

import json

import pytest

from windtunnel.cli.main import run
from windtunnel.stacks.stack_files import FRAMEWORKS


def test_all_frameworks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stacks", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["id"] for record in records] == [*FRAMEWORKS, "vllm", "sglang", "trtllm"]
    for record in records:
        assert all(row["source"] for row in (*record["defaults"], *record["formats"], *record["rules"]))
        assert all(recipe["source"] for recipe in record["recipes"])
    assert run(["stacks"]) == 0 and "megatron_bridge" in capsys.readouterr().out


def test_one_framework_by_a_usual_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stacks", "mbridge", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["id"], record["inherits"]) == ("megatron_bridge", "megatron_core")
    assert {"release": "0.6", "date": "2026-08"} in record["releases"]
    row = next(r for r in record["defaults"] if r["field"] == "dispatcher" and r["value"] == "hybridep")
    assert row["since"] == "2025-11" and row["when"]["device"] == ["gb200", "gb300", "rubin"]
    assert any(r["owner"] == "megatron_core" for r in record["defaults"])
    assert run(["stacks", "mbridge"]) == 0 and "hybridep" in capsys.readouterr().out


def test_an_unknown_name_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stacks", "megatron_brige"]) == 2
    assert "did you mean 'megatron_bridge'?" in capsys.readouterr().err


def test_tables_show_what_holds_where_and_since_when(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stacks", "mbridge"]) == 0
    shown = capsys.readouterr().out
    assert not shown.startswith("{") and "None" not in shown
    assert "2025-11" in shown and "everywhere" in shown and "device gb200" in shown.replace("\n", " ")
    assert run(["stacks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (bridge,) = (line for line in lines if line.strip().startswith("megatron_bridge "))
    assert bridge.split()[-1] == "megatron_core"
    (generic,) = (line for line in lines if line.strip().startswith("generic "))
    assert "None" not in generic


@pytest.mark.parametrize(
    ("recipe", "made_for"),
    [
        ("deepseek_v3_pretrain_256gpu_gb200_fp8mx_config", "256 × gb200"),
        ("deepseek_v3_16b_hybridep", "any × any"),
    ],
)
def test_a_recipe_says_what_it_was_made_for(recipe: str, made_for: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stacks", recipe, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert f"{record['devices'] or 'any'} × {record['device'] or 'any'}" == made_for
    assert run(["stacks", recipe]) == 0
    assert made_for in capsys.readouterr().out


def test_summaries_leave_open_what_a_recipe_was_not_made_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stacks", "megatron_bridge", "--json"]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["recipes"]}
    own = found["deepseek_v3_pretrain_256gpu_gb200_fp8mx_config"]
    assert (own["device"], own["devices"]) == ("gb200", 256)
    assert all(one["device"] != "" and one["devices"] != 0 for one in found.values())


def test_a_serving_engine_shows_its_rules_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stacks", "vLLM"]) == 0
    shown = capsys.readouterr().out
    assert "limits.max_num_batched_tokens" in shown and "must be at least" in shown
    assert run(["stacks", "sglang", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["kind"] == "engine" and all(rule["source"] for rule in record["rules"])
    assert run(["stacks", "--json"]) == 0
    assert {"vllm", "trtllm"} <= {one["id"] for one in json.loads(capsys.readouterr().out) if one["kind"] == "engine"}
