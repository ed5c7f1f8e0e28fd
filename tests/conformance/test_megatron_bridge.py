"""Python for Megatron-Bridge: every field is in the release's list, the numbers are the plan's, the file compiles."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import plan_cases
import pytest

from windtunnel.errors import BadInput
from windtunnel.exporters.launch import export
from windtunnel.exporters.target import options
from windtunnel.training.predict import prepare

pytestmark = pytest.mark.conformance
EXAMPLES = plan_cases.examples()
MOE = {
    "model": "Qwen/Qwen3-30B-A3B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 64},
}


def settings(folder: Path) -> dict[str, Any]:
    """`cfg.<section>.<field>` → the value, or the text of an expression."""
    tree = ast.parse((folder / "plan_overrides.py").read_text("utf-8"))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "apply")
    found: dict[str, Any] = {}
    for line in function.body:
        if isinstance(line, ast.Assign):
            name = ast.unparse(line.targets[0]).removeprefix("cfg.")
            assert name not in found, f"{name} is set twice"
            try:
                found[name] = ast.literal_eval(line.value)
            except ValueError:
                found[name] = ast.unparse(line.value)
    return found


@pytest.mark.parametrize("scenario", EXAMPLES, ids=lambda p: p.stem)
def test_every_field_is_in_the_published_list_and_numbers_come_back(scenario: Path, tmp_path: Path) -> None:
    prepared, _ = prepare(scenario)
    done = export(prepared, "megatron_bridge", "0.6.2", tmp_path)
    found, known, plan = settings(tmp_path), options("megatron_bridge", "0.6.2"), prepared.plan
    assert found.pop("comm_overlap").startswith("CommOverlapConfig(tp_comm_overlap=")
    assert set(found) <= known.kinds.keys()
    for name, choices in known.choices.items():
        assert found.get(name) is None or found[name] in choices
    axes = {"tensor_model": plan.tp, "pipeline_model": plan.pp, "context": plan.cp, "expert_model": plan.ep}
    assert all(found[f"model.{axis}_parallel_size"] == size for axis, size in axes.items())
    assert found["model.virtual_pipeline_model_parallel_size"] == (plan.vpp if plan.vpp > 1 else None)
    assert found["train.micro_batch_size"] * plan.m * plan.dp == found["train.global_batch_size"]
    assert found["model.seq_length"] == found["dataset.seq_length"] == prepared.training.seq_len
    assert found["model.num_layers"] == prepared.model.num_hidden_layers
    assert all(item in done.files[0].read_text("utf-8") for item in (*done.unsupported, *done.notes))


@pytest.mark.parametrize(
    ("plan", "field", "value"),
    [
        ({"recompute": {"policy": "full"}}, "model.recompute_method", "uniform"),
        ({"recompute": {"policy": "modules", "modules": ["norm"]}}, "model.recompute_modules", ["layernorm"]),
        ({"zero": 3}, "ddp.data_parallel_sharding_strategy", "optim_grads_params"),
        ({"zero": 1, "shard_group": 8}, "ddp.num_distributed_optimizer_instances", 4),
        ({"pp": 4, "stage_layers": [11, 13, 13, 11]}, "model.pipeline_model_parallel_layout", "Et*11|t*13|t*13|t*11L"),
        ({"ep": 8}, "model.moe_token_dispatcher_type", "alltoall"),
    ],
)
def test_each_axis_has_its_field(plan: dict[str, Any], field: str, value: Any, tmp_path: Path) -> None:
    export(MOE | {"plan": plan}, "megatron_bridge", None, tmp_path)
    assert settings(tmp_path)[field] == value


@pytest.mark.parametrize("target", ["megatron", "megatron_bridge"])
def test_overlap_of_expert_traffic_that_the_core_refuses_is_refused_here(target: str, tmp_path: Path) -> None:
    plan = {"ep": 4, "pp": 2, "overlap": {"moe_a2a": True}, "recompute": {"policy": "full"}}
    with pytest.raises(BadInput) as caught:
        export(MOE | {"plan": plan}, target, None, tmp_path)
    assert [problem.field for problem in caught.value.problems] == ["plan.overlap.moe_a2a"] * 2


def test_a_model_without_a_recipe_is_said(tmp_path: Path) -> None:
    done = export(MOE | {"model": "mistralai/Mistral-7B-v0.1"}, "megatron_bridge", None, tmp_path)
    assert any("no recipe" in item for item in done.unsupported)
    assert "RECIPE:?" in done.files[0].read_text("utf-8")
