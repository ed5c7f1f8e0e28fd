"""What `export` writes, read by each target's own configuration code from `.venv-targets`.

`scripts/install-targets` makes that environment (`make test-long` runs it); a program that is not there is skipped with
the reason. Each program reads all files of a release in one process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import plan_cases
import pytest
from own_code import own_code

from windtunnel.errors import BadInput
from windtunnel.exporters.launch import Exported, export
from windtunnel.training.predict import prepare
from windtunnel.training.step_setup import PreparedStep

pytestmark = [pytest.mark.conformance, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
VARIABLES = ("CUDA_DEVICE_MAX_CONNECTIONS", "PYTORCH_CUDA_ALLOC_CONF", "NVTE_CPU_OFFLOAD_V1")
EXAMPLES = plan_cases.examples()


@cache
def steps(target: str) -> dict[str, PreparedStep]:
    """Every example and every case on the target's software, prepared."""
    todo: dict[str, Any] = {path.stem: path for path in EXAMPLES}
    for name, (model, plan) in plan_cases.plans().items():
        todo[name] = plan_cases.scenario(model, plan, target)
    found = {}
    for name, scenario in todo.items():
        with contextlib.suppress(BadInput):  # other tests hold what is refused
            found[name] = prepare(scenario)[0]
    return found


def exported(target: str, version: str, folder: Path) -> dict[str, tuple[PreparedStep, Exported, Path]]:
    """Every case and example that the target takes, written."""
    done = {}
    for i, (name, prepared) in enumerate(steps(target).items()):
        try:
            place = folder / str(i)
            done[name] = (prepared, export(prepared, target, version, place), place)
        except BadInput:
            continue  # refused before anything is written; other tests hold which
    assert len(done) > 20
    return done


def stand_in(folder: Path) -> Path:
    """A folder with a `torchrun` that prints what it is given: variables that are set, then its words."""
    folder.mkdir()
    path = folder / "torchrun"
    show = "\n".join(f'printf "%s\\0" "{name}=${{{name}:-}}"' for name in VARIABLES)
    path.write_text(f'#!/usr/bin/env bash\n{show}\nprintf "%s\\0" "$@"\n')
    path.chmod(0o755)
    return folder


def command(script: Path, tools: Path, **environment: str) -> tuple[dict[str, str], list[str]]:
    """(variables, words) that a written script gives to torchrun."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run([bash, script], capture_output=True, text=True, env={"PATH": path, **environment}, check=True)
    words = ran.stdout.split("\0")[:-1]
    variables = dict(word.split("=", 1) for word in words[: len(VARIABLES)])
    return {name: value for name, value in variables.items() if value}, words[len(VARIABLES) :]


@pytest.mark.parametrize("version", ["0.17.1", "0.18.0", "0.19.2"])
def test_megatron(version: str, tmp_path: Path) -> None:
    tools = stand_in(tmp_path / "tools")
    done = exported("megatron", version, tmp_path)
    cases = []
    for prepared, out, _ in done.values():
        variables, words = command(out.files[0], tools, MEGATRON_DIR="/m")
        given = words[words.index("/m/pretrain_gpt.py") + 1 :]
        cases.append({"arguments": given, "environment": variables, "world_size": prepared.cluster.num_devices})
    found = own_code("megatron", "megatron-core", version, cases, tmp_path)
    refused = {name: got["error"] for name, got in zip(done, found, strict=True) if got["error"]}
    assert refused == {}
    for (name, (prepared, _, _)), got in zip(done.items(), found, strict=True):
        plan, read = prepared.plan, got["read"]
        sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
        assert [read[size] for size in sizes] == [plan.tp, plan.pp, plan.cp], name
        assert read["data_parallel_size"] == plan.dp, name
        assert (read["virtual_pipeline_model_parallel_size"] or 1) == plan.vpp, name
        assert read["micro_batch_size"] * plan.dp * plan.m == read["global_batch_size"], name
        assert read["use_distributed_optimizer"] is (plan.zero > 0), name


def test_torchtitan_toml(tmp_path: Path) -> None:
    done = exported("torchtitan", "0.2.2", tmp_path)
    cases = [{"arguments": ["--job.config_file", str(place / "torchtitan.toml")]} for _, _, place in done.values()]
    found = own_code("torchtitan", "torchtitan", "0.2.2", cases, tmp_path)
    assert {name: got["error"] for name, got in zip(done, found, strict=True) if got["error"]} == {}
    for (name, (prepared, _, _)), got in zip(done.items(), found, strict=True):
        plan, read = prepared.plan, got["read"]
        degrees = ("tensor_parallel", "pipeline_parallel", "context_parallel")
        assert [read["parallelism"][f"{axis}_degree"] for axis in degrees] == [plan.tp, plan.pp, plan.cp], name
        assert read["training"]["global_batch_size"] == prepared.training.global_batch, name


def test_torchtitan_python(tmp_path: Path) -> None:
    done = exported("torchtitan", "0.3.0", tmp_path)
    given = ["--module", "plan_config", "--config", "plan"]
    needs = ("REPLACE", "Converter.Config")  # a model of the user's own; torchao, which needs a device
    texts = {name: (place / "plan_config.py").read_text("utf-8") for name, (_, _, place) in done.items()}
    named = {name: row for name, row in done.items() if not any(need in texts[name] for need in needs)}
    assert len(named) > 100
    cases = [{"arguments": given, "path": str(place)} for _, _, place in named.values()]
    found = own_code("torchtitan", "torchtitan", "0.3.0", cases, tmp_path)
    assert {name: got["error"] for name, got in zip(named, found, strict=True) if got["error"]} == {}
    for (name, (prepared, _, _)), got in zip(named.items(), found, strict=True):
        plan, read = prepared.plan, got["read"]
        degrees = ("tensor_parallel", "pipeline_parallel", "context_parallel")
        assert [read["parallelism"][f"{axis}_degree"] for axis in degrees] == [plan.tp, plan.pp, plan.cp], name
        assert read["parallelism"]["enable_sequence_parallel"] is (plan.sp or plan.tp == 1), name
        assert read["training"]["global_batch_size"] == prepared.training.global_batch, name


def test_deepspeed(tmp_path: Path) -> None:
    done = exported("deepspeed", "0.19.8", tmp_path)
    cases = [
        {"file": str(place / "ds_config.json"), "replicas": prepared.plan.dp} for prepared, _, place in done.values()
    ]
    found = own_code("deepspeed", "deepspeed", "0.19.8", cases, tmp_path)
    assert {name: got["error"] for name, got in zip(done, found, strict=True) if got["error"]} == {}
    for (name, (prepared, _, _)), got in zip(done.items(), found, strict=True):
        plan, read = prepared.plan, got["read"]
        assert read["train_batch_size"] == prepared.training.global_batch, name
        assert (read["train_micro_batch_size_per_gpu"], read["gradient_accumulation_steps"]) == (plan.mbs, plan.m), name
        assert read["stage"] == plan.zero, name
