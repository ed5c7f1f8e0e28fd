"""`windtunnel stacks`: what it lists, in tables and as JSON."""

from __future__ import annotations

import json

import pytest

from windtunnel.cli.main import run
from windtunnel.stacks.stack_files import FRAMEWORKS


def test_all_frameworks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stacks", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["id"] for record in records] == list(FRAMEWORKS)
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
