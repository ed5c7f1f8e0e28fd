"""The second distribution is found where it is installed, and asked for in one line where it is not."""

from __future__ import annotations

import importlib

import pytest

from windtunnel.cli import workshop
from windtunnel.cli.main import run as cli
from windtunnel.errors import BadInput


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `windtunnel-lab` were not installed."""
    own = importlib.import_module

    def missing(name: str, package: str | None = None) -> object:
        if name.partition(".")[0] == "windtunnel_lab":
            raise ModuleNotFoundError(f"No module named '{name}'", name="windtunnel_lab")
        return own(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)


def test_reproduce_says_in_a_line_what_to_install(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["reproduce", "dsi"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "windtunnel-lab" in line and "python -m pip install ./workshop" in line


def test_nothing_else_needs_it(alone: None) -> None:
    assert workshop.papers() == []
    assert cli(["techniques", "show", "cache-to-cache"]) == 0
    assert cli(["techniques", "list", "--planned"]) == 0


def test_an_error_inside_it_is_not_taken_for_its_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise ModuleNotFoundError("No module named 'other'", name="other")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="other"):
        workshop.workshop_module("reproduce")


def test_papers_are_found() -> None:
    assert "dsi" in workshop.papers()
    with pytest.raises(BadInput):
        workshop.workshop_module("reproduce").folders(["nobody"])
