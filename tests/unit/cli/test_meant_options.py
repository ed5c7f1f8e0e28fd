"""Options that are fields of a scenario, and commands that are pasted where a file stands."""

from __future__ import annotations

import sys

import pytest

from windtunnel.cli.import_ import _pasted
from windtunnel.cli.main import run


@pytest.mark.parametrize("option", ["--tp", "--tensor-parallel-size"])
def test_an_option_that_is_a_field_is_answered_with_its_setting(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "x.yaml", option, "8"]
    monkeypatch.setattr(sys, "argv", ["windtunnel", *words])
    assert run(words) == 2
    assert "--set plan.tp=8" in capsys.readouterr().err


def test_a_pasted_command_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["import", "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2", "--device", "h100"]
    assert run(words) == 0
    assert "tp: 2" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["no file.yaml", "x.yaml", "-", "--odd.sh"])
def test_the_name_of_a_file_is_no_command(name: str) -> None:
    assert _pasted(name) == ""
