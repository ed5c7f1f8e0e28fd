"""What `export` writes, `import` reads back: the same resolved plan and the same dimensions."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from windtunnel.exporters.launch import export
from windtunnel.importers import formats
from windtunnel.importers.launch import Wanted
from windtunnel.training.predict import prepare

pytestmark = pytest.mark.conformance
EXAMPLES = Path(__file__).parents[2] / "examples"
SAYABLE = {
    "megatron": ["training.framework=megatron_core", "plan.recompute.policy=selective"],
    "megatron_bridge": ["training.framework=megatron_bridge", "plan.recompute.policy=selective"],
    "deepspeed": ["training.framework=deepspeed", "plan.recompute.policy=none", "plan.recompute.modules=[]"],
    "torchtitan": ["training.framework=torchtitan", "plan.zero=3", "training.moe_dispatcher=alltoall"],
}
"""What turns an example into one that the target can express in full."""
VERSION = {"torchtitan": "0.2.2"}
"""The one with the file below; other targets: the newest."""
FILES = {
    "megatron": "megatron.sh",
    "torchtitan": "torchtitan.toml",
    "deepspeed": "ds_config.json",
    "megatron_bridge": "plan_overrides.py",
}


NAMES = ["llama3-8b-8xh100-fsdp", "llama3-70b-64xh100", "qwen3-30b-a3b-16xh100-moe"]
CASES = [(target, name) for target in ("megatron", "megatron_bridge", "torchtitan") for name in NAMES]
CASES.append(("deepspeed", NAMES[0]))


@pytest.mark.parametrize(("target", "name"), CASES)
def test_exported_plans_come_back(target: str, name: str, tmp_path: Path) -> None:
    prepared, _ = prepare(EXAMPLES / f"{name}.yaml", overrides=SAYABLE[target])
    export(prepared, target, VERSION.get(target), tmp_path)
    file = tmp_path / FILES[target]
    text = file.read_text("utf-8")
    assert formats.detect(text, file.name) == target
    cluster = prepared.cluster
    wanted = Wanted(device=cluster.device.id, nodes=cluster.nodes)
    if target == "deepspeed":  # its file holds neither
        wanted = replace(wanted, model=prepared.model.name, seq_len=prepared.training.seq_len)
    launch = formats.read(target, text, file.name, wanted)
    assert launch.problems == []
    assert [left for left in launch.unread if "unknown" in left.why] == []
    again, _ = prepare(launch.scenario())
    assert again.model.hidden_size == prepared.model.hidden_size
    assert again.model.layer_kinds() == prepared.model.layer_kinds()
    before: dict[str, Any] = asdict(prepared.plan)
    after: dict[str, Any] = asdict(again.plan)
    if prepared.plan.overlap_tp and again.plan.overlap_tp:  # decides before the layers' own overlap
        after["tp_bulk_overlap"] = before["tp_bulk_overlap"]
    assert {key: (before[key], after[key]) for key in before if before[key] != after[key]} == {}


@pytest.mark.parametrize(
    "name", ["openai/gpt3-175b", "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3"]
)
def test_exported_dimensions_come_back_by_name(name: str, tmp_path: Path) -> None:
    work = {"seq_len": 2048, "global_batch": 512, "framework": "megatron_core"}
    cluster = {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8}
    prepared, _ = prepare({"model": name, "cluster": cluster, "training": work})
    export(prepared, "megatron", None, tmp_path)
    text = (tmp_path / FILES["megatron"]).read_text("utf-8")
    launch = formats.read("megatron", text, "megatron.sh", Wanted(device="h100-sxm-80gb"))
    assert launch.problems == []
    assert launch.scenario()["model"] == name
