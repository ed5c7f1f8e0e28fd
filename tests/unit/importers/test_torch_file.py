"""PyTorch modules of a Python file: what is executed, what is refused, and what the verb writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

import windtunnel as wt
from windtunnel.cli.main import run
from windtunnel.importers.torch_file import trace_file


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user trusts the files of these tests."""
    monkeypatch.setenv("WINDTUNNEL_TRUST", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


SOURCE = """
import torch
from torch import nn

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256, bias=False), nn.Linear(256, 64, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

def build():
    return Mlp(), (torch.empty(8, 64),)

def large():
    return nn.Linear(2**20, 2**20, bias=False), torch.empty(1, 2**20)

def needs(size):
    return nn.Linear(size, size)

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return path


def test_without_torch_the_verb_says_how_to_get_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run(["import", f"{file}:build"]) == 2
    said = capsys.readouterr().err
    assert "windtunnel[torch]" in said and "Traceback" not in said


def test_options_of_other_files_are_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", f"{file}:build", "--nodes", "2"]) == 2
    assert "only takes --input" in capsys.readouterr().err
    assert run(["import", str(file), "--input", "2x4"]) == 2
    assert "--input is for PyTorch modules" in capsys.readouterr().err


def test_functions_classes_and_inputs_name_the_same_module(file: Path) -> None:
    pytest.importorskip("torch")
    own = trace_file(file, "build")
    assert own.num_params == 2 * 64 * 256
    assert own.dense_flop == own.counted_flop == 2 * 8 * own.num_params
    assert trace_file(file, "Mlp", ["8x64"]) == own
    assert trace_file(file, "build", ["2x64"]).dense_flop == own.dense_flop / 4
    assert trace_file(file, "large").num_params == 2**40, "a model of 4 TiB takes no memory"


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("Mpl", [], "did you mean"),
        ("number", [], "must be a module"),
        ("needs", [], "without arguments"),
        ("Mlp", ["8xx64", "8:float99"], "SIZES:DTYPE"),
        ("Mlp", ["8x63"], "cannot run on the example inputs"),
    ],
)
def test_what_cannot_be_traced_is_said(file: Path, name: str, inputs: list[str], message: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(wt.BadInput, match=message):
        trace_file(file, name, inputs)


def test_the_verb_writes_operators(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    target = tmp_path / "operators.yaml"
    assert run(["import", f"{file}:build", "-o", str(target), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = yaml.safe_load(target.read_text())
    assert printed["operators"] == written["operators"]
    assert [op["kind"] for op in written["operators"]] == ["gemm", "pointwise", "gemm"]
    assert written["module"].endswith("model.py:build")
    graph = wt.import_torch_module(torch.nn.Linear(4, 4), (torch.zeros(2, 4),))
    assert graph.num_params == 20
