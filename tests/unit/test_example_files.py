"""Example scenarios by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel import example_files
from windtunnel.cli.main import run
from windtunnel.scenarios.load import load_scenario


@pytest.mark.parametrize(
    "name",
    [
        "llama3-70b-64xh100",
        "llama3-70b-64xh100.yaml",
        "examples/llama3-70b-64xh100.yaml",
        "serving/llama3-70b-4xh100",
        "llama3-70b-4xh100",
    ],
)
def test_an_example_is_found_by_its_name(name: str) -> None:
    found = example_files.find(name)
    assert found is not None
    assert found.stem == Path(name.removesuffix(".yaml")).name


@pytest.mark.parametrize("name", ["", "../pyproject", "/etc/passwd", "no-such", "examples/", "serving/../../pyproject"])
def test_other_names_are_none(name: str) -> None:
    assert example_files.find(name) is None


def test_every_example_says_what_it_is() -> None:
    assert [name for name, file in example_files.scenarios().items() if not example_files.about(file)] == []


def test_a_name_works_where_a_file_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_scenario("llama3-8b-8xh100-fsdp").training is not None
    (tmp_path / "llama3-8b-8xh100-fsdp").write_text("model: llama3-8b\ncluster: {device: h100}\n")
    assert load_scenario("llama3-8b-8xh100-fsdp").training is None


def test_an_example_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "my.yaml"
    assert run(["example", "llama3-70b-64xh100", "-o", str(target)]) == 0
    assert target.read_text() == example_files.scenarios()["llama3-70b-64xh100"].read_text("utf-8")
    assert run(["example", "llama3-70b-64xh100", "-o", str(target)]) == 2
    assert run(["example", "llama3-70b-64xh10"]) == 2
    assert "did you mean 'llama3-70b-64xh100'" in capsys.readouterr().err
