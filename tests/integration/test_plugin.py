"""A distribution outside the tree, installed without an index: its entries are found and run, its options checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "plugin"
CALLS = """\
import contextlib, io, json, sys
from windtunnel.cli.main import run

for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
MODEL = "model: meta-llama/Llama-3.2-1B\n"
CLUSTER = "cluster: {device: sample-one, nodes: 1, devices_per_node: 2}\n"
TRAIN = (
    f"{MODEL}{CLUSTER}training: {{seq_len: 1024, global_batch: 4, precision: bf16}}\nplan: {{tp: 2, zero: 0, mbs: 1}}\n"
)
SERVE = f"""\
{MODEL}{CLUSTER}serving:
  engine: sample-engine
  traffic: {{rate_per_s: 4, num_requests: 20, input_tokens: 128, output_tokens: 8}}
"""
JOBS = """\
cluster: {device: sample-one, nodes: 1, devices_per_node: 4}
jobs:
  generate: {rate_per_hour: 8, count: 10, classes: [{name: a, share: 1, devices: 2, duration: 1 h, cv: 0.5}]}
  policy: sample-widest-first
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages that holds the sample, installed as pip does it, with nothing fetched."""
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("setuptools is older than the development tools ask for: make setup")
    source, packages = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("packages")
    shutil.copytree(SAMPLE, source)
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", packages, source]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return packages


def asked(packages: Path, place: Path, *calls: list[str]) -> list[tuple[int, str, str]]:
    """Exit code, standard output and standard error of commands of one process that has the packages."""
    for name, text in (("train", TRAIN), ("serve", SERVE), ("cluster", JOBS)):
        (place / f"{name}.yaml").write_text(text, "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT / "src")])}
    done = subprocess.run(
        [sys.executable, "-c", CALLS], input=json.dumps(calls), cwd=place, env=environment,
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in map(json.loads, done.stdout.splitlines())]


def test_entries_of_another_distribution_are_found_and_run(folder: Path, tmp_path: Path) -> None:
    answers = asked(
        folder, tmp_path,
        ["devices", "S1", "--json"],
        ["train", "train.yaml", "--json"],
        ["serve", "serve.yaml", "--json"],
        ["cluster", "cluster.yaml", "--json"],
    )  # fmt: skip
    assert [code for code, _, _ in answers] == [0, 0, 0, 0], [err for _, _, err in answers]
    device, step, served, jobs = (json.loads(out) for _, out, _ in answers)
    assert device["id"] == "sample-one"
    assert step["step_time_s"] > 0
    assert _assumed(served, "max_num_seqs") == 7
    assert jobs["policy"] == "sample-widest-first"


def test_options_of_another_distribution_are_checked(folder: Path, tmp_path: Path) -> None:
    export = ["train", "train.yaml", "--export", "sample", "--json", "--export-dir"]
    written, lacking, wrong, unknown, knob, typo = asked(
        folder, tmp_path,
        [*export, "written", "--force"],
        [*export, "lacking", "--set", "plan.zero=3", "--set", "plan.tp=1"],
        [*export, "wrong", "--set", "plan.pp=2", "--set", "plan.tp=1"],
        [*export, "unknown", "--target-version", "9"],
        ["cluster", "cluster.yaml", "--set", "jobs.policy={sample-widest-first: {width: 3}}"],
        ["train", "train.yaml", "--set", "cluster.device=sample-onee"],
    )  # fmt: skip
    assert written[0] == 0, written[2]
    text = (tmp_path / "written" / "sample.sh").read_text("utf-8")
    assert "sample_train.py --tensor-parallel 2 --micro-batch 1 --zero-stage 0" in text
    assert "--context is not an option of sample 1.5" in text
    assert lacking[0] == 3 and "sample 1.5 knows 0, 1" in lacking[2] + lacking[1]
    assert wrong[0] == 2 and "knows no pipeline" in wrong[2]
    assert unknown[0] == 2 and "known versions: 1.5" in unknown[2]
    assert knob[0] == 2 and "width" in knob[2]
    assert typo[0] == 2 and "sample-one" in typo[2]


def _assumed(result: dict[str, Any], name: str) -> Any:
    """A limit of the first pool."""
    return next(value for key, value in _flat(result["limits"]) if key.endswith(name))


def _flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in _flat(inner, f"{path}.{key}")]
    if isinstance(value, list):
        return [pair for inner in value for pair in _flat(inner, path)]
    return [(path, value)]
