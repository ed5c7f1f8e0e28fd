"""Scripts for Megatron-LM: every option exists in the release's own list, and the numbers are the plan's."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import plan_cases
import pytest

from windtunnel.exporters.launch import export
from windtunnel.exporters.target import options, versions
from windtunnel.training.predict import prepare

pytestmark = pytest.mark.conformance
EXAMPLES = plan_cases.examples()
DENSE = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 64},
}


def words(path: Path) -> dict[str, list[str]]:
    """Arguments as the shell would pass them: option → its values."""
    found: dict[str, list[str]] = {}
    for name, group in re.findall(r"^([A-Z]+)=\(\n(.*?)^\)", path.read_text("utf-8"), re.S | re.M):
        for line in group.splitlines() if name != "TORCHRUN" else ():
            option, *values = shlex.split(line)
            assert option not in found, f"{option} is written twice"
            found[option] = values
    return found


@pytest.mark.parametrize("version", versions("megatron"))
@pytest.mark.parametrize("scenario", EXAMPLES, ids=lambda p: p.stem)
def test_every_option_is_in_the_published_list_and_numbers_come_back(
    scenario: Path, version: str, tmp_path: Path
) -> None:
    prepared, _ = prepare(scenario)
    done = export(prepared, "megatron", version, tmp_path)
    found, known = words(done.files[0]), options("megatron", version)
    assert len(found) > 20
    for option, values in found.items():
        assert known.refuses(option, *values) is None
    plan, model = prepared.plan, prepared.model
    back = {option: int(values[0]) for option, values in found.items() if values and values[0].isdigit()}
    assert back["--tensor-model-parallel-size"] == plan.tp
    assert back["--pipeline-model-parallel-size"] == plan.pp
    assert back["--context-parallel-size"] == plan.cp
    assert back["--micro-batch-size"] * plan.dp * plan.m == back["--global-batch-size"]
    assert back["--num-layers"] == model.num_hidden_layers
    assert back["--hidden-size"] == model.hidden_size
    assert back["--seq-length"] == prepared.training.seq_len
    if model.num_experts:
        assert back["--num-experts"] == model.num_experts
        assert back["--expert-model-parallel-size"] == plan.ep
    for item in done.unsupported:
        assert item in done.files[0].read_text("utf-8")


def test_an_option_that_a_version_lacks_is_said_and_not_written(tmp_path: Path) -> None:
    scenario = DENSE | {"training": {"seq_len": 8192, "global_batch": 64, "padded_vocab": False}}
    old, new = (export(scenario, "megatron", version, tmp_path / version) for version in ("0.17.1", "0.19.2"))
    assert "--no-pad-vocab-size is not an option of megatron 0.17.1" in old.unsupported
    assert "--no-pad-vocab-size" not in words(old.files[0]) and "--no-pad-vocab-size" in words(new.files[0])
    graphs = scenario | {"training": {"seq_len": 8192, "global_batch": 64, "cuda_graphs": "attention"}}
    found = words(export(graphs, "megatron", "0.17.1", tmp_path / "graphs").files[0])
    assert found["--cuda-graph-scope"] == ["attn"] and "--cuda-graph-modules" not in found


def test_an_uneven_split_becomes_a_layout(tmp_path: Path) -> None:
    layers = [3, 4, 4, 5, 4, 4, 5, 3]
    plan = {"tp": 2, "pp": 4, "vpp": 2, "stage_layers": layers}
    done = export(DENSE | {"plan": plan}, "megatron", None, tmp_path)
    (layout,) = words(done.files[0])["--pipeline-model-parallel-layout"]
    spelt = re.sub(r"(.)\*(\d+)", lambda x: x.group(1) * int(x.group(2)), layout).split("|")
    assert [stage.count("t") for stage in spelt] == layers
    assert spelt[0][0] == "E" and spelt[-1][-1] == "L"
    assert "--num-virtual-stages-per-pipeline-rank" not in words(done.files[0])


@pytest.mark.parametrize(
    ("plan", "option", "values"),
    [
        ({"zero": 0}, "--use-distributed-optimizer", None),
        ({"zero": 1}, "--use-distributed-optimizer", []),
        ({"zero": 2}, "--data-parallel-sharding-strategy", ["optim_grads"]),
        ({"zero": 3}, "--data-parallel-sharding-strategy", ["optim_grads_params"]),
        ({"zero": 1, "shard_group": 8}, "--num-distributed-optimizer-instances", ["4"]),
        ({"cp": 4, "cp_kind": "hybrid", "cp_all_to_all": 2}, "--hierarchical-context-parallel-sizes", ["2", "2"]),
        ({"cp": 4, "cp_kind": "all_gather"}, "--cp-comm-type", ["allgather"]),
        ({"pp": 4, "vpp": 2}, "--num-virtual-stages-per-pipeline-rank", ["2"]),
        ({"pp": 4, "order": ["tp", "cp", "ep", "pp", "dp"]}, "--use-tp-pp-dp-mapping", []),
        ({"recompute": {"policy": "full"}}, "--recompute-method", ["uniform"]),
        ({"pp": 4, "vpp": 2, "recompute": {"policy": "full", "num_layers": 4}}, "--recompute-num-layers", ["2"]),
        ({"recompute": {"policy": "selective"}}, "--recompute-modules", ["core_attn"]),
        ({"recompute": {"policy": "modules", "modules": ["norm", "mlp"]}}, "--recompute-modules", ["layernorm", "mlp"]),
        ({"offload": {"optimizer": 0.5}}, "--optimizer-offload-fraction", ["0.5"]),
    ],
)
def test_each_axis_has_its_option(
    plan: dict[str, object], option: str, values: list[str] | None, tmp_path: Path
) -> None:
    done = export(DENSE | {"plan": plan}, "megatron", None, tmp_path)
    assert words(done.files[0]).get(option) == values


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("fp16", {"--fp16": []}),
        ("fp8", {"--bf16": [], "--fp8-recipe": ["tensorwise"]}),
        ("mxfp8", {"--fp8-format": ["e4m3"], "--fp8-recipe": ["mxfp8"]}),
    ],
)
def test_precision(precision: str, expected: dict[str, list[str]], tmp_path: Path) -> None:
    training = {"seq_len": 8192, "global_batch": 64, "precision": precision}
    cluster = {"device": "b200-sxm-180gb", "nodes": 4, "devices_per_node": 8}
    found = words(export(DENSE | {"training": training, "cluster": cluster}, "megatron", None, tmp_path).files[0])
    assert expected.items() <= found.items()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_passes_on_exactly_these_words(tmp_path: Path) -> None:
    """The script runs against a stand-in torchrun that prints what it is given."""
    done = export(EXAMPLES[-1], "megatron", None, tmp_path)
    stand_in = tmp_path / "torchrun"
    stand_in.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "MEGATRON_DIR": "/x y"}
    ran = subprocess.run(
        ["bash", str(done.files[0]), "--lr", "3"], capture_output=True, text=True, env=environment, check=True
    )
    lines = ran.stdout.splitlines()
    program = lines.index("/x y/pretrain_gpt.py")
    assert lines[:program:2][:3] == ["--nnodes", "--nproc-per-node", "--node-rank"]
    flat = [word for option, values in words(done.files[0]).items() for word in (option, *values)]
    assert lines[program + 1 :] == [*flat, "--lr", "3"]
    wrong = subprocess.run(
        ["bash", str(done.files[0])], env=environment | {"NNODES": "77"}, capture_output=True, check=False
    )
    assert wrong.returncode == 2
