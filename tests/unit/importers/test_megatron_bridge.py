"""Settings of Megatron-Bridge from Python, YAML and a command line; nothing is run."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted

RECIPE = """\
from megatron.bridge import AutoBridge
from megatron.bridge.training.comm_overlap import CommOverlapConfig

SEQUENCE: int = 8192

def small_config():
    hf_path = "meta-llama/Llama-3.1-8B"
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained(hf_path).to_megatron_provider(load_weights=False)
    cfg.model.seq_length = SEQUENCE
    cfg.train.global_batch_size = 128
    cfg.model.tensor_model_parallel_size = 1
    return cfg

def big_config():
    cfg = small_config()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Llama-3.1-70B").to_megatron_provider(load_weights=False)
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.sequence_parallel = True
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.virtual_pipeline_model_parallel_size = 5
    cfg.model.pipeline_model_parallel_layout = None
    cfg.train.micro_batch_size = BATCH // 2
    cfg.model.recompute_granularity = "selective"
    cfg.model.recompute_modules = ["core_attn", "layernorm"]
    cfg.model.attention_backend = AttnBackend.flash
    cfg.mixed_precision = bf16_with_mxfp8_mixed()
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)
    cfg.comm_overlap.overlap_grad_reduce = True
    cfg.ddp.use_distributed_optimizer = True
    cfg.checkpoint.save_interval = 500
    if LARGE:
        cfg.model.context_parallel_size = 2
    return cfg
"""
YAML = """\
model:
  tensor_model_parallel_size: 2
  context_parallel_size: 2
  cp_comm_type: a2a
  seq_length: 4096
  recompute_granularity: full
  recompute_method: block
  recompute_num_layers: 4
train:
  global_batch_size: 64
  micro_batch_size: 2
ddp:
  use_megatron_fsdp: true
  data_parallel_sharding_strategy: optim_grads_params
mixed_precision: bf16_mixed
"""
COMMAND = """\
#!/bin/bash
GBS=256
torchrun --nnodes=2 --nproc-per-node=8 pretrain.py --recipe llama3_8b \\
  model.tensor_model_parallel_size=2 model.seq_length=8192 train.global_batch_size=$GBS \\
  train.micro_batch_size=1 +model.recompute_granularity=full dataset.blend=$DATA
"""


def read(text: str, device: str = "h100-sxm-80gb", **more: Any) -> Launch:
    """A text on H100 unless said."""
    assert formats.detect(text, "x") == "megatron_bridge"
    return formats.read("megatron_bridge", text, "x", Wanted(device=device, **more))


def test_a_recipe_is_read_through_the_one_that_it_starts_from() -> None:
    launch = read(RECIPE, "b200-sxm-180gb", nodes=8, env={"CONFIG": "big_config"})
    assert launch.problems == []
    fields = launch.fields
    assert read(RECIPE, nodes=8, env={"CONFIG": "big_config"}).fields["training.precision"] == "fp8"  # no such units
    assert fields["model"] == "meta-llama/Llama-3.1-70B"
    assert (fields["plan.tp"], fields["plan.sp"], fields["plan.pp"], fields["plan.vpp"]) == (4, True, 4, 5)
    assert (fields["training.precision"], fields["training.attention"]) == ("mxfp8", "flash2")
    assert fields["plan.recompute.modules"] == ["core_attn", "norm"]
    assert (fields["plan.zero"], fields["plan.overlap.tp"], fields["plan.overlap.grad_reduce"]) == (1, True, True)
    assert (fields["training.seq_len"], fields["training.global_batch"]) == (8192, 128)
    left = {item.name: item.why for item in launch.unread}
    assert fields["plan.mbs"] == 1  # assumed
    assert "train.micro_batch_size" in left and "plan.cp" not in fields
    assert any(name.startswith("if LARGE") for name in left)
    assert any("not in this file" in why for why in left.values())


def test_several_recipes_are_asked_for_by_name() -> None:
    problem = read(RECIPE, nodes=8).problems[0]
    assert problem.field == "CONFIG" and "small_config, big_config" in problem.rule


def test_yaml_sections() -> None:
    launch = read(YAML, nodes=1, model="meta-llama/Llama-3.1-8B")
    assert launch.problems == []
    fields = launch.fields
    assert (fields["plan.zero"], fields["plan.cp_kind"], fields["plan.mbs"]) == (3, "all_to_all", 2)
    assert launch.fields["plan.recompute.num_layers"] == 4
    assert launch.origin["plan.mbs"] == ("train.micro_batch_size", 11)


def test_a_command_with_overrides() -> None:
    launch = read(COMMAND, model="meta-llama/Llama-3.1-8B")
    assert launch.problems == []
    assert (launch.fields["cluster.nodes"], launch.fields["cluster.devices_per_node"]) == (2, 8)
    assert (launch.fields["training.global_batch"], launch.fields["plan.recompute.policy"]) == (256, "full")
    assert [item.name for item in launch.unread] == ["dataset.blend"]


@pytest.mark.parametrize("missing", ["model", "sequence", "batch"])
def test_what_the_recipe_holds_is_asked_for(missing: str) -> None:
    gone = {"sequence": "seq_length", "batch": "global"}.get(missing, "?")
    text = "\n".join(line for line in YAML.splitlines() if gone not in line)
    problems = read(text, nodes=1, model=None if missing == "model" else "meta-llama/Llama-3.1-8B").problems
    option = {"model": "--model", "sequence": "--seq-len", "batch": "--global-batch"}[missing]
    assert len(problems) == 1 and option in str(problems[0])


@pytest.mark.parametrize(("padding", "padded"), [("", False), (" model.moe_pad_expert_input_to_capacity=True", True)])
def test_a_capacity_is_read_beside_the_named_model(padding: str, padded: bool) -> None:
    command = (
        "train.py model.seq_length=4096 train.global_batch_size=64 train.micro_batch_size=1 "
        "model.moe_expert_capacity_factor=1.25" + padding
    )
    launch = read(command, nodes=1, devices_per_node=8, model="Qwen/Qwen3-30B-A3B")
    assert launch.problems == []
    model = launch.scenario()["model"]
    assert (model["name"], model["num_experts"]) == ("Qwen/Qwen3-30B-A3B", 128)
    assert (model["capacity_factor"], model["moe_pad_expert_input_to_capacity"]) == (1.25, padded)


def test_overrides_with_adapters_are_no_pretraining() -> None:
    text = """train: {global_batch_size: 128, micro_batch_size: 2}
peft: {dim: 8, alpha: 16}
model: {seq_length: 4096, tensor_model_parallel_size: 1, pipeline_model_parallel_size: 1}
"""
    wanted = Wanted(device="h100-sxm-80gb", nodes=1, model="meta-llama/Llama-3.2-1B")
    launch = formats.read(formats.detect(text, "a.yaml"), text, "a.yaml", wanted)
    assert not launch.problems
    assert (launch.fields["training.phase"], launch.fields["training.lora.rank"]) == ("lora", 8)
