"""Tables of training runs: told apart by what only they have, read with their tools' defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.training import predict

NEOX = """\
{
  "pipe-parallel-size": 2, "model-parallel-size": 2, "num-layers": 8, "hidden-size": 1024, "num-attention-heads": 16,
  "seq-length": 2048, "max-position-embeddings": 2048, "norm": "layernorm", "pos-emb": "rotary",
  "no-weight-tying": true, "gpt_j_residual": true, "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 1, "overlap_comm": True,},
  "checkpoint-activations": true, "fp16": {"enabled": true, "loss_scale": 0}, "optimizer": {"type": "Adam"},
}
"""
NANOTRON = """\
model:
  dtype: bfloat16
  model_config: {hidden_size: 1024, intermediate_size: 4096, num_hidden_layers: 8, num_attention_heads: 16,
    num_key_value_heads: 4, vocab_size: 32000, max_position_embeddings: 4096, tie_word_embeddings: false,
    hidden_act: silu, rope_theta: 10000.0}
optimizer: {zero_stage: 1, clip_grad: 1.0}
parallelism: {dp: 8, tp: 2, pp: 1, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER, recompute_layer: true}
tokens: {batch_accumulation_per_replica: 4, micro_batch_size: 3, sequence_length: 4096, train_steps: 15}
"""
PICOTRON = """\
{"distributed": {"tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2, "pp_engine": "1f1b", "backend": "nccl"},
 "model": {"name": "HuggingFaceTB/SmolLM-1.7B", "dtype": "bfloat16", "use_flash_attention": true},
 "training": {"seq_length": 2048, "micro_batch_size": 4, "gradient_accumulation_steps": 8, "learning_rate": 3e-4}}
"""
FOUNDRY = """\
max_seq_len: 2048
model: {name: mpt_causal_lm, d_model: 1024, n_heads: 16, n_layers: 8, expansion_ratio: 4, vocab_size: 50368,
  max_seq_len: "${max_seq_len}", no_bias: true, attn_config: {attn_impl: flash}}
train_loader: {name: text}
global_train_batch_size: 64
device_train_microbatch_size: 4
precision: amp_bf16
fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE, activation_checkpointing: true}
"""
MAXTEXT = """\
ARGS="model_name=llama3.1-8b per_device_batch_size=3 ici_fsdp_parallelism=-1 remat_policy=full \\
max_target_length=8192 dtype=bfloat16 steps=30 base_output_directory=x run_name=y"
xpk workload create --cluster=c --device-type=v6e-16 --num-slices=2 \\
  --command="set -e && export A='1' && python3 -m MaxText.train MaxText/configs/base.yml ${ARGS}"
"""
AUTOMODEL = """\
model: {_target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained,
  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B-Instruct, torch_dtype: bfloat16}
distributed: {_target_: nemo_automodel.components.distributed.fsdp2.FSDP2Manager, dp_size: 4, tp_size: 2, cp_size: 1}
step_scheduler: {global_batch_size: 16, local_batch_size: 2, max_steps: 10}
dataset: {_target_: nemo_automodel.components.datasets.llm.squad.make_squad_dataset, seq_length: 2048}
peft: {_target_: nemo_automodel.components._peft.lora.PeftConfig, match_all_linear: true, dim: 24}
"""
RL = """\
sft: {max_num_epochs: 1}
policy:
  model_name: meta-llama/Llama-3.1-8B
  train_global_batch_size: 32
  train_micro_batch_size: 2
  max_total_sequence_length: 4096
  precision: bfloat16
  dtensor_cfg: {enabled: true, tensor_parallel_size: 2, activation_checkpointing: true, sequence_parallel: false}
  megatron_cfg: {enabled: false, tensor_model_parallel_size: 1}
cluster: {gpus_per_node: 8, num_nodes: 2}
"""
PRIMUS = """\
work_group: "${TEAM:amd}"
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama3.1_8B.yaml
    overrides: {train_iters: 50, micro_batch_size: 4, global_batch_size: 128, seq_length: 8192, lr: 1.0e-5,
      tensor_model_parallel_size: 2, pipeline_model_parallel_size: 1, overlap_grad_reduce: true, fp8: hybrid,
      overlap_param_gather: true, gradient_accumulation_fusion: false, recompute_granularity: "${R:full}",
      recompute_method: uniform, recompute_num_layers: 1}
"""
FLAGSCALE = """\
system:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  use_distributed_optimizer: true
  precision: {bf16: true, attention_softmax_in_fp32: true}
  logging: {log_interval: 1}
model: {num_layers: 8, hidden_size: 1024, num_attention_heads: 16, seq_length: 2048, max_position_embeddings: 2048,
  swiglu: true, normalization: RMSNorm, untie_embeddings_and_output_weights: true, micro_batch_size: 2,
  disable_bias_linear: true, use_rotary_position_embeddings: true, global_batch_size: 64, attention_dropout: 0.0,
  hidden_dropout: 0.0}
data: {data_path: x, tokenizer: {tokenizer_type: AquilaTokenizerFS, vocab_size: 100008}}
"""
ROLL = """\
num_gpus_per_node: 8
pretrain: Qwen/Qwen3-8B
prompt_length: 512
response_length: 1536
rollout_batch_size: 64
num_return_sequences_in_group: 8
adv_estimator: grpo
actor_train:
  model_args: {dtype: bf16}
  training_args: {per_device_train_batch_size: 1, gradient_accumulation_steps: 32, learning_rate: 1.0e-6}
  strategy_args: {strategy_name: megatron_train, strategy_config: {tensor_model_parallel_size: 2}}
  device_mapping: list(range(0,8))
actor_infer: {strategy_args: {strategy_name: vllm}}
"""
NEMO = """\
from nemo.collections import llm
NODES = 2

def configure(gpus: int = 8):
    recipe = llm.llama31_8b.pretrain_recipe(dir="x", name="y", num_nodes=NODES, num_gpus_per_node=gpus)
    recipe.trainer.strategy.tensor_model_parallel_size = 2
    recipe.trainer.strategy.pipeline_model_parallel_size = 1
    recipe.data.global_batch_size = 64
    recipe.data.micro_batch_size = 2
    recipe.data.seq_length = 8192
    recipe.trainer.max_steps = 30
    return recipe
"""
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gpt_neox": (
        NEOX,
        {"nodes": 1},
        {
            "plan.tp": 2,
            "plan.pp": 2,
            "plan.zero": 1,
            "plan.mbs": 4,
            "training.global_batch": 64,
            "training.precision": "fp16",
            "plan.recompute.policy": "full",
            "training.framework": "megatron_deepspeed",
        },
    ),
    "nanotron": (
        NANOTRON,
        {},
        {
            "plan.tp": 2,
            "plan.dp": 8,
            "cluster.nodes": 2,
            "plan.zero": 1,
            "plan.sp": True,
            "plan.mbs": 3,
            "training.global_batch": 96,
            "training.seq_len": 4096,
            "plan.recompute.policy": "full",
        },
    ),
    "picotron": (
        PICOTRON,
        {"model": "meta-llama/Llama-2-7b-hf"},
        {
            "plan.tp": 2,
            "plan.pp": 2,
            "plan.dp": 2,
            "plan.zero": 0,
            "training.global_batch": 64,
            "cluster.devices_per_node": 8,
            "training.seq_len": 2048,
        },
    ),
    "llm_foundry": (
        FOUNDRY,
        {"nodes": 1},
        {
            "plan.zero": 3,
            "plan.mbs": 4,
            "training.global_batch": 64,
            "training.seq_len": 2048,
            "training.precision": "bf16",
            "plan.recompute.policy": "full",
            "training.phase": "pretrain",
        },
    ),
    "maxtext": (
        MAXTEXT,
        {"device": None},
        {
            "cluster.device": "tpu-v6e",
            "cluster.nodes": 4,
            "cluster.devices_per_node": 8,
            "plan.zero": 3,
            "plan.mbs": 3,
            "training.global_batch": 96,
            "training.seq_len": 8192,
            "plan.recompute.policy": "full",
        },
    ),
    "nemo_automodel": (
        AUTOMODEL,
        {},
        {
            "plan.tp": 2,
            "cluster.devices_per_node": 8,
            "training.lora.rank": 24,
            "training.global_batch": 16,
            "plan.mbs": 2,
            "training.seq_len": 2048,
            "plan.zero": 3,
        },
    ),
    "nemo_rl": (
        RL,
        {},
        {
            "plan.tp": 2,
            "cluster.nodes": 2,
            "training.global_batch": 32,
            "plan.mbs": 2,
            "training.seq_len": 4096,
            "plan.recompute.policy": "full",
            "training.phase": "sft",
            "plan.zero": 3,
        },
    ),
    "primus": (
        PRIMUS,
        {"device": "mi300x", "nodes": 1},
        {
            "plan.tp": 2,
            "training.precision": "fp8",
            "plan.mbs": 4,
            "training.global_batch": 128,
            "plan.zero": 1,
            "training.seq_len": 8192,
            "plan.recompute.policy": "full",
            "model": "meta-llama/Llama-3.1-8B",
        },
    ),
    "flagscale": (
        FLAGSCALE,
        {"nodes": 1},
        {
            "plan.tp": 2,
            "training.precision": "bf16",
            "plan.mbs": 2,
            "training.global_batch": 64,
            "plan.zero": 1,
            "model.vocab_size": 100008,
            "model.num_hidden_layers": 8,
        },
    ),
    "roll": (
        ROLL,
        {"without": ("rollouts",)},
        {
            "plan.tp": 2,
            "training.seq_len": 2048,
            "training.global_batch": 128,
            "cluster.devices_per_node": 8,
            "training.framework": "megatron_core",
        },
    ),
    "nemo2": (
        NEMO,
        {},
        {
            "plan.tp": 2,
            "cluster.nodes": 2,
            "cluster.devices_per_node": 8,
            "training.global_batch": 64,
            "plan.mbs": 2,
            "training.seq_len": 8192,
            "training.phase": "pretrain",
            "model": "meta-llama/Llama-3.1-8B",
        },
    ),
}


def imported(text: str, **wanted: Any) -> Launch:
    format = formats.detect(text, "run.yaml")
    return formats.read(format, text, "run.yaml", Wanted(**{"device": "h100-sxm-80gb", **wanted}))


@pytest.mark.parametrize("name", CASES)
def test_a_table_is_told_apart_and_read(name: str) -> None:
    text, wanted, expected = CASES[name]
    launch = imported(text, **wanted)
    assert launch.format == name
    assert not launch.problems, launch.problems
    assert {path: launch.fields.get(path) for path in expected} == expected
    predict.prepare(launch.scenario())


def test_dimensions_of_gpt_neox() -> None:
    fields = imported(NEOX, nodes=1).fields
    assert fields["model.position_embedding"] == "rope"
    assert fields["model.parallel_block"] is True
    assert fields["model.tie_word_embeddings"] is False
    assert fields["model.intermediate_size"] == 4096
    assert imported(NEOX, nodes=1, vocab_size=50277).fields["model.vocab_size"] == 50277


def test_devices_that_a_file_does_not_state_are_asked() -> None:
    for text in (NEOX, FOUNDRY):
        [problem] = imported(text).problems
        assert problem.field == "--nodes"


def test_a_micro_batch_that_is_left_to_the_trainer_is_asked() -> None:
    problems = imported(FOUNDRY.replace("microbatch_size: 4", "microbatch_size: auto"), nodes=1).problems
    assert any(problem.field == "device_train_microbatch_size" for problem in problems)
    assert not imported(FOUNDRY.replace("microbatch_size: 4", "microbatch_size: auto"), nodes=1, mbs=2).problems


def test_adapters_of_llm_foundry() -> None:
    own = "model: {name: hf_causal_lm, pretrained_model_name_or_path: meta-llama/Llama-3.1-8B, peft_config: {r: 12, "
    start, end = FOUNDRY.index("model:"), FOUNDRY.index("train_loader")
    text = FOUNDRY[:start] + own + "target_modules: [q_proj]}}\n" + FOUNDRY[end:]
    fields = imported(text, nodes=1).fields
    assert (fields["training.lora.rank"], fields["training.lora.targets"]) == (12, ["q"])


def test_a_format_that_maxtext_has_and_a_scenario_lacks_stops() -> None:
    [problem] = imported(MAXTEXT.replace("steps=30", "quantization=int2"), device=None).problems
    assert "decides the precision" in problem.rule
    assert (
        imported(MAXTEXT.replace("steps=30", "quantization=fp8"), device="tpu-v7x").fields["training.precision"]
        == "fp8"
    )


def test_chips_with_two_devices_count_batches_twice() -> None:
    text = MAXTEXT.replace("v6e-16", "tpu7x-2x2x2").replace("--num-slices=2", "--num-slices=1")
    fields = imported(text, device=None).fields
    assert fields["cluster.device"] == "tpu-v7x"
    assert (fields["plan.mbs"], fields["training.global_batch"]) == (6, 48)


def test_grpo_of_nemo_rl_is_said() -> None:
    text = RL.replace("sft: {max_num_epochs: 1}", "grpo: {num_generations_per_prompt: 16, num_prompts_per_step: 32}")
    [problem] = imported(text).problems
    assert "post-training (GRPO): rollouts of 16 samples" in problem.rule
    assert not imported(text, without=("rollouts",)).problems
    assert imported(RL.replace("sft:", "dpo:")).fields["training.reference_passes"] == 1


def test_a_file_that_builds_on_another_stops() -> None:
    problems = imported("defaults: ../sft.yaml\n" + RL).problems
    assert any(problem.field == "defaults" for problem in problems)


def test_a_file_that_builds_on_one_by_its_path_takes_its_settings(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(RL)
    own = "defaults: base.yaml\npolicy: {train_global_batch_size: 64, max_total_sequence_length: 512}\nsft: {seed: 1}\n"
    (tmp_path / "own.yaml").write_text(own)
    launch = formats.read("nemo_rl", own, str(tmp_path / "own.yaml"), Wanted(device="h100-sxm-80gb"))
    assert not launch.problems
    assert launch.fields["training.global_batch"] == 64
    assert launch.fields["plan.tp"] == 2


def test_sizes_of_a_recipe_that_are_not_in_the_file_are_asked() -> None:
    lines = [line for line in NEMO.splitlines() if "strategy" not in line]
    [problem] = imported("\n".join(lines)).problems
    assert "--set plan.tp=N" in problem.rule
    assert not imported("\n".join(lines), fields={"plan.tp": 1}).problems


def test_maxtext_of_primus() -> None:
    text = "modules:\n  pre_trainer:\n    framework: maxtext\n    model: llama3_8B.yaml\n    overrides:\n"
    text += "      max_target_length: 8192\n      per_device_batch_size: 4\n      ici_fsdp_parallelism: 8\n"
    fields = imported(text, device="mi300x", nodes=1).fields
    assert (fields["training.framework"], fields["plan.mbs"], fields["training.global_batch"]) == ("jax", 4, 32)
    [problem] = imported(text.replace("maxtext", "other"), nodes=1).problems
    assert "must be megatron or maxtext" in problem.rule


NEMO1 = """\
trainer: {devices: 8, num_nodes: 2, precision: bf16, max_steps: 100}
exp_manager: {name: x}
model:
  mcore_gpt: true
  micro_batch_size: 2
  global_batch_size: 64
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  encoder_seq_length: 4096
  max_position_embeddings: "${.encoder_seq_length}"
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 11008
  num_attention_heads: 32
  hidden_dropout: 0.0
  attention_dropout: 0.0
  normalization: rmsnorm
  bias: false
  activation: fast-swiglu
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  tokenizer: {library: sentencepiece}
  optim: {name: distributed_fused_adam, lr: 1e-4}
"""
AWS = """\
#SBATCH --nodes=4
GPUS_PER_NODE=8
declare -a TORCHRUN_ARGS=(--nproc_per_node=$GPUS_PER_NODE --nnodes=$SLURM_JOB_NUM_NODES)
declare -a TRAINING_ARGS=(--max_context_width=8192 --num_key_value_heads=8 --intermediate_size=14336
    --hidden_width=4096 --num_layers=32 --num_heads=32 --model_type=llama_v3 --train_batch_size=1
    --sharding_strategy=full --offload_activations=1 --lr=1)
srun -l torchrun "${TORCHRUN_ARGS[@]}" ../src/train.py "${TRAINING_ARGS[@]}"
"""


def test_nemo_1() -> None:
    launch = imported(NEMO1)
    assert launch.format == "nemo"
    assert not launch.problems, launch.problems
    expected = {"model": "meta-llama/Llama-2-7b-hf", "plan.tp": 2, "plan.zero": 1, "plan.mbs": 2, "cluster.nodes": 2}
    expected |= {"training.global_batch": 64, "training.seq_len": 4096, "training.precision": "bf16"}
    assert {path: launch.fields.get(path) for path in expected} == expected
    assert "training.dropout" not in launch.fields
    predict.prepare(launch.scenario())


def test_the_test_case_of_aws() -> None:
    launch = imported(AWS)
    assert launch.format == "aws_fsdp"
    assert not launch.problems, launch.problems
    expected = {"model": "meta-llama/Llama-3.1-8B", "plan.zero": 3, "plan.mbs": 1, "cluster.nodes": 4}
    expected |= {"training.global_batch": 32, "training.seq_len": 8192, "plan.offload.activations": 1.0}
    assert {path: launch.fields.get(path) for path in expected} == expected


def test_a_command_of_torchtitan_takes_a_recipe_by_its_name(tmp_path: Path) -> None:
    text = (
        "CONFIG=${CONFIG:-llama3_8b}\nsrun torchrun --nnodes 2 --nproc_per_node 8 -m torchtitan.train --config $CONFIG"
    )
    launch = imported(text)
    assert launch.format == "torchtitan"
    assert not launch.problems, launch.problems
    assert launch.fields["training.recipe"] == "llama3_8b"
    assert launch.fields["cluster.nodes"] == 2
    predict.prepare(launch.scenario())
    [problem] = imported(text, env={"CONFIG": "mine"}).problems
    assert "--env CONFIG=NAME" in problem.rule
    toml = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\n'
    (tmp_path / "mine.toml").write_text(toml + "tensor_parallel_degree = 2\n")
    own = "torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file ./mine.toml --training.seq_len 2048"
    read = formats.read("torchtitan", own, str(tmp_path / "run.sh"), Wanted(device="h100-sxm-80gb"))
    assert not read.problems, read.problems
    assert (read.fields["plan.tp"], read.fields["training.seq_len"]) == (2, 2048)


def test_services_of_flagscale() -> None:
    text = "- serve_id: a\n  engine: vllm\n  engine_args:\n    model: Qwen/Qwen3-32B\n    tensor_parallel_size: 4\n"
    launch = imported(text + "    enable_chunked_prefill: true\n    max_num_seqs: 64\n")
    [pool] = launch.scenario()["serving"]["pools"]
    assert (pool["plan"]["tp"], pool["limits"]["max_num_seqs"], pool["limits"]["chunked_prefill"]) == (4, 64, True)


def test_eight_bits_of_transformer_engine_in_automodel() -> None:
    text = AUTOMODEL.replace("torch_dtype: bfloat16}", "torch_dtype: bfloat16, backend: {te_fp8: {recipe: current}}}")
    assert imported(text).fields["training.precision"] == "fp8"


def test_the_objective_is_in_the_json() -> None:
    assert imported(RL.replace("sft:", "dpo:")).as_dict()["objective"] == "dpo"
    assert "objective" not in imported(RL).as_dict()


@pytest.mark.parametrize("ratio", [".inf", ".nan", "-1", "wide", "[4]"])
def test_an_expansion_that_is_no_number_is_a_problem(ratio: str) -> None:
    problems = imported(FOUNDRY.replace("expansion_ratio: 4", f"expansion_ratio: {ratio}"), nodes=1).problems
    assert any(problem.field == "model.expansion_ratio" for problem in problems)


def test_width_and_groups_of_llm_foundry() -> None:
    text = FOUNDRY.replace("attn_impl: flash", "attn_type: multiquery_attention")
    fields = imported(text, nodes=1).fields
    assert (fields["model.intermediate_size"], fields["model.num_key_value_heads"]) == (4096, 1)
    assert imported(text.replace("expansion_ratio: 4, ", ""), nodes=1).fields["model.intermediate_size"] == 4096
    assert imported(text.replace("ratio: 4", "ratio: 2"), nodes=1).fields["model.intermediate_size"] == 2048
