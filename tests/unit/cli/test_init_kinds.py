"""Scenarios that `init` writes for each command, and what it says where nothing fits."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from windtunnel.cli.main import run
from windtunnel.commands import COMMANDS, meant_by
from windtunnel.scenarios.load import load_scenario
from windtunnel.scenarios.read import read_mapping
from windtunnel.specs.run import RunSpec

SMALL = ["--model", "meta-llama/Llama-3.2-1B", "--nodes", "1", "--devices-per-node", "1"]


@pytest.mark.parametrize(
    ("option", "command"), [("--run", "run"), ("--cluster", "cluster"), ("--reason", "reason"), ("--serving", "serve")]
)
def test_the_scenario_is_right_for_its_command(option: str, command: str, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    assert run(["init", str(file), option, *SMALL]) == 0
    fields = read_mapping(file)
    assert COMMANDS.get(command).missing(fields) == ()
    assert meant_by(fields) == command
    load_scenario(file)


def test_only_one_kind_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "my.yaml"), "--run", "--cluster"]) == 2
    assert "--reason" in capsys.readouterr().err


def test_jobs_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my.yaml"
    assert run(["init", str(file), "--cluster", "--nodes", "2"]) == 0
    assert run(["cluster", str(file)]) == 0
    assert "100 jobs on 2 nodes" in capsys.readouterr().out


def test_it_says_aloud_when_nothing_fits_and_what_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", "meta-llama/Llama-3.1-8B", "--device", "rtx-4090", "--devices-per-node", "4"]
    assert run(["init", str(tmp_path / "my.yaml"), *words]) == 0
    said = capsys.readouterr().err
    assert "warning: No plan fits on this cluster" in said
    assert "next:" not in said and said.index("warning") < said.index("which does not fit as it is")
    assert "--nodes " in said


def test_instances_take_all_devices(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    assert run(["init", str(file), "--serving", "--model", "llama3-8b", "--devices-per-node", "4"]) == 0
    (pool,) = read_mapping(file)["serving"]["pools"]
    assert pool["replicas"] * pool["plan"]["tp"] == 4


@pytest.mark.parametrize("option", ["--run", "--serving"])
def test_hints_in_comments_are_fields(option: str, tmp_path: Path) -> None:
    """Each commented `key: value` is one that the scenario may have."""
    file = tmp_path / "my.yaml"
    assert run(["init", str(file), option, *SMALL]) == 0
    text = file.read_text("utf-8")
    free = re.sub(r"(?m)^( *)# (\w+: )", r"\1\2", text.partition("schema_version")[2])
    assert free != text.partition("schema_version")[2]
    file.write_text(f"schema_version{free}", "utf-8")
    load_scenario(file)


def test_failures_are_those_that_run_takes_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    assert run(["init", str(file), "--run", *SMALL]) == 0
    assert read_mapping(file)["run"]["failures"] == RunSpec.model_fields["failures"].default


@pytest.mark.parametrize("kind", [[], ["--serving"], ["--run"]])
def test_comments_of_neighbouring_lines_stand_in_one_column(kind: list[str], tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    assert run(["init", str(file), "--nodes", "1", "--global-batch", "128", *kind]) == 0
    lines = file.read_text().splitlines()
    ends = [(len(own.rstrip()), len(own)) for own in (line.partition("# ")[0] for line in lines) if own.strip()]
    commented = [pair if "# " in line else None for line, pair in zip(filter(_has_value, lines), ends, strict=True)]
    for one, following in itertools.pairwise(commented):
        if one and following and max(one[0], following[0]) <= 30:
            assert one[1] == following[1]


def _has_value(line: str) -> bool:
    return bool(line.partition("# ")[0].strip())
