"""JSON for DeepSpeed: every field is in the release's list, the numbers are the plan's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.exporters.launch import export
from windtunnel.exporters.target import options
from windtunnel.training.predict import prepare

pytestmark = pytest.mark.conformance
DENSE = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 64, "framework": "deepspeed"},
}
PLANS: list[dict[str, Any]] = [
    {"zero": 0},
    {"zero": 1, "pp": 4, "recompute": {"policy": "full"}},
    {"zero": 2, "mbs": 2},
    {"zero": 3},
    {"zero": 3, "offload": {"optimizer": 0.5, "params": 1.0}},
    {"zero": 1, "tp": 2},
    {"zero": 3, "cp": 4, "cp_kind": "all_to_all"},
    {"zero": 2, "offload": {"optimizer": 1.0, "tier": "nvme"}},
]


def fields(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted names → values; `optimizer.params` stays whole."""
    out: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        out |= fields(value, f"{name}.") if isinstance(value, dict) and name != "optimizer.params" else {name: value}
    return out


def written(folder: Path) -> dict[str, Any]:
    """What the JSON file says."""
    return fields(json.loads((folder / "ds_config.json").read_text("utf-8")))


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_every_field_is_in_the_published_list_and_numbers_come_back(plan: dict[str, Any], tmp_path: Path) -> None:
    prepared, _ = prepare(DENSE | {"plan": plan})
    done = export(prepared, "deepspeed", "0.19.8", tmp_path)
    found, known, resolved = written(tmp_path), options("deepspeed", "0.19.8"), prepared.plan
    assert all(known.refuses(field, value) is None for field, value in found.items())
    batch = found["train_micro_batch_size_per_gpu"] * found["gradient_accumulation_steps"] * resolved.dp
    assert batch == found["train_batch_size"] == prepared.training.global_batch
    assert found["zero_optimization.stage"] == resolved.zero
    assert found.get("tensor_parallel.autotp_size", 1) == resolved.tp
    assert found.get("sequence_parallel_size", 1) == resolved.cp
    assert found.get("pipeline.stages", 1) == resolved.pp
    assert found["bf16.enabled"] is True
    script = done.files[0].read_text("utf-8")
    assert all(item in script for item in (*done.unsupported, *done.notes))


def test_experts(tmp_path: Path) -> None:
    scenario = DENSE | {"model": "Qwen/Qwen3-30B-A3B", "plan": {"zero": 2, "ep": 8}}
    export(scenario, "deepspeed", None, tmp_path)
    assert written(tmp_path)["expert_parallel.autoep_size"] == 8


def test_offload_is_written_where_the_stage_allows_it(tmp_path: Path) -> None:
    done = export(DENSE | {"plan": {"zero": 1, "offload": {"params": 1.0}}}, "deepspeed", None, tmp_path)
    assert "offload of params at stage 1" in done.unsupported
    export(DENSE | {"plan": {"zero": 3, "offload": {"optimizer": 0.5}}}, "deepspeed", None, tmp_path)
    assert written(tmp_path)["zero_optimization.offload_optimizer.ratio"] == 0.5


@pytest.mark.parametrize(
    ("model", "plan", "field"),
    [
        ("meta-llama/Llama-3.1-8B", {"zero": 2, "pp": 4}, "plan.zero"),
        ("meta-llama/Llama-3.1-8B", {"zero": 1, "tp": 2, "cp": 2}, "plan.cp"),
        ("Qwen/Qwen3-30B-A3B", {"zero": 1, "tp": 2}, "plan.ep"),
        ("Qwen/Qwen3-30B-A3B", {"zero": 1, "tp": 2, "ep": 2, "etp": 2}, "plan.etp"),
    ],
)
def test_numbers_that_deepspeed_refuses_are_refused_here(
    model: str, plan: dict[str, Any], field: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as caught:
        export(DENSE | {"model": model, "plan": plan}, "deepspeed", None, tmp_path)
    assert field in [problem.field for problem in caught.value.problems]
