"""TOML files for torchtitan: fields are in the release's list, numbers are the plan's."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.exporters.launch import export
from windtunnel.exporters.target import options
from windtunnel.exporters.targets.torchtitan import stage_modules
from windtunnel.training.predict import prepare

pytestmark = pytest.mark.conformance
EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["llama3-8b-8xh100-fsdp", "llama3-70b-64xh100", "llama3-405b-16384xh100", "qwen3-30b-a3b-16xh100-moe"]
TITAN = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 64, "framework": "torchtitan", "compile": True},
}


def fields(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted names → values."""
    out: dict[str, Any] = {}
    for key, value in table.items():
        out |= fields(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return out


def written(folder: Path) -> dict[str, Any]:
    """What the TOML file says."""
    return fields(tomllib.loads((folder / "torchtitan.toml").read_text("utf-8")))


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_in_the_published_list_and_numbers_come_back(name: str, tmp_path: Path) -> None:
    prepared, _ = prepare(EXAMPLES / f"{name}.yaml")
    export(prepared, "torchtitan", "0.2.2", tmp_path)
    found, known, plan = written(tmp_path), options("torchtitan", "0.2.2"), prepared.plan
    assert all(known.refuses(field, value) is None for field, value in found.items())
    degree = {field.removesuffix("_degree").removeprefix("parallelism."): n for field, n in found.items()}
    assert (degree["tensor_parallel"], degree["pipeline_parallel"], degree["context_parallel"]) == (
        plan.tp,
        plan.pp,
        plan.cp,
    )
    replicas = degree["data_parallel_replicate"] * degree["data_parallel_shard"]
    assert replicas == plan.dp
    local, whole = found["training.local_batch_size"], found["training.global_batch_size"]
    assert whole % (local * replicas) == 0
    size = found.get("parallelism.pipeline_parallel_microbatch_size", local)
    assert size == plan.mbs and whole // replicas // size == plan.m
    assert found["training.seq_len"] == prepared.training.seq_len
    assert "REPLACE" not in found["model.flavor"]


def test_stages_hold_every_module_once_in_order() -> None:
    stages = stage_modules((3, 0, 2))
    flat = [name for stage in stages for name in stage]
    assert flat == ["tok_embeddings", *(f"layers.{i}" for i in range(5)), "norm", "output"]
    assert [sum(name.startswith("layers.") for name in stage) for stage in stages] == [3, 0, 2]


@pytest.mark.parametrize(
    ("plan", "field", "value"),
    [
        ({"zero": 3}, "parallelism.fsdp_reshard_after_forward", "default"),
        ({"zero": 2}, "parallelism.fsdp_reshard_after_forward", "never"),
        ({"zero": 3, "pp": 2, "reshard_after_forward": True}, "parallelism.fsdp_reshard_after_forward", "always"),
        ({"zero": 3, "shard_group": 8}, "parallelism.data_parallel_replicate_degree", 4),
        ({"zero": 3, "shard_group": 8, "cp": 2}, "parallelism.data_parallel_shard_degree", 4),
        ({"zero": 3, "cp": 2, "cp_kind": "all_gather"}, "parallelism.context_parallel_rotate_method", "allgather"),
        ({"zero": 3, "pp": 4, "vpp": 2}, "parallelism.pipeline_parallel_schedule", "Interleaved1F1B"),
        ({"zero": 3, "pp": 4, "vpp": 2, "schedule": "zb_v"}, "parallelism.pipeline_parallel_schedule", "ZBVZeroBubble"),
        ({"zero": 3, "pp": 4, "schedule": "gpipe"}, "parallelism.pipeline_parallel_schedule", "GPipe"),
        ({"zero": 3, "recompute": {"policy": "full"}}, "activation_checkpoint.mode", "full"),
        (
            {"zero": 3, "recompute": {"policy": "full", "num_layers": 16}},
            "activation_checkpoint.selective_ac_option",
            "2",
        ),
    ],
)
def test_each_axis_has_its_field(plan: dict[str, Any], field: str, value: Any, tmp_path: Path) -> None:
    export(TITAN | {"plan": plan}, "torchtitan", "0.2.2", tmp_path)
    assert written(tmp_path)[field] == value


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ({"zero": 0, "tp": 2}, "plan.zero"),
        ({"zero": 3, "shard_group": 2, "cp": 4}, "plan.shard_group"),
        ({"zero": 3, "tp": 16}, "plan.tp"),
    ],
)
def test_numbers_that_torchtitan_refuses_are_refused_here(plan: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        export(TITAN | {"plan": plan}, "torchtitan", "0.2.2", tmp_path)
    assert field in [problem.field for problem in caught.value.problems]


def test_a_model_without_a_flavor_is_said(tmp_path: Path) -> None:
    done = export(TITAN | {"model": "mistralai/Mistral-7B-v0.1", "plan": {"zero": 3}}, "torchtitan", "0.2.2", tmp_path)
    assert any("no flavor" in item for item in done.unsupported)
    text = (tmp_path / "torchtitan.toml").read_text("utf-8")
    assert all(item in text for item in done.unsupported)
