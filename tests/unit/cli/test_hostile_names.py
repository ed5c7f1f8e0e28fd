"""Names come from files of others: none of them controls the terminal, is read as markup or ends a command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from windtunnel import catalog
from windtunnel.cli.main import run
from windtunnel.cli.output import console, print_json, print_line

EXAMPLE = Path(__file__).parents[3] / "examples" / "llama3-8b-8xh100-fsdp.yaml"
NAMES = {
    "escapes": "\x1b]0;title\x07\x1b[31m\x9b31mred\x7f",
    "markup": "[red]x[/red] [link=file:///etc/passwd]y[/link] [/] :smile:",
    "lines": "a\nb: c\r\nd",
    "direction": "a\u202eb\u2066c",
}


def controls(text: str) -> list[str]:
    """What a terminal would not show but obey."""
    return [c for c in text if not c.isprintable() and c != "\n"]


@pytest.fixture(params=NAMES)
def named(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A scenario with a hostile name, of itself and of its model."""
    name = NAMES[request.param]
    model: dict[str, Any] = catalog.model("meta-llama/Llama-3.1-8B").model_dump(mode="json", exclude_defaults=True)
    model.pop("provenance", None)
    scenario = {**yaml.safe_load(EXAMPLE.read_text()), "name": name, "model": {**model, "name": name}}
    (tmp_path / "x.json").write_text(json.dumps(scenario))
    return tmp_path / "x.json", name


@pytest.mark.parametrize(
    "words", [["train"], ["train", "--json"], ["fit"], ["explain"], ["compare", "TWICE"], ["check"]], ids=" ".join
)
def test_a_name_is_shown_and_does_nothing(
    words: list[str], named: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(named[0])
    assert run([words[0], file, *(file if word == "TWICE" else word for word in words[1:])]) in (0, 2)
    told = capsys.readouterr()
    found = controls(told.out) if "--json" not in words else [c for c in told.out if "\x7f" <= c <= "\x9f"]
    assert not found and not controls(told.err)
    assert "internal error" not in told.err
    if "--json" in words:
        assert json.loads(told.out)["scenario_name"] == named[1]


def test_lines_and_json_control_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(NAMES["escapes"])
    console().print(NAMES["markup"])
    print_json({"a": NAMES["escapes"], "ü": 1})
    out = capsys.readouterr().out
    assert not controls(out)
    assert "[red]x[/red]" in out and ":smile:" in out and '"ü"' in out


@pytest.mark.parametrize("columns", ["²", "-1", "0", "9" * 30, "x", ""])
def test_any_width_is_a_width(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert 40 <= console().width <= 99_999


def test_a_working_directory_that_is_gone_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    os.rmdir(tmp_path / "gone")
    assert run(["train", str(EXAMPLE), "--report", "x.html"]) == 2
    assert "the working directory is not there any more" in capsys.readouterr().err
