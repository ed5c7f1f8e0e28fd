"""Commands of tuning tools: told apart by what only they have, read with their own defaults, post-training said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.training import predict

CHAT = """\
deepspeed --num_gpus 4 main.py --data_path a/b --model_name_or_path facebook/opt-1.3b --per_device_train_batch_size 6 \\
   --max_seq_len 640 --zero_stage 2 --lora_dim 32 --lora_module_name decoder.layers. --only_optimize_lora --deepspeed
"""
SWIFT = """\
NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --dataset a/b --lora_rank 12 \\
    --max_length 3000 --deepspeed zero3 --model_author me --model_name my-robot --packing true
"""
MEGATRON_SWIFT = """\
NPROC_PER_NODE=8 \\
megatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size 2 --pipeline_model_parallel_size 2 \\
    --sequence_parallel true --micro_batch_size 2 --global_batch_size 24 --recompute_granularity full \\
    --max_length 4096 --packing true --cross_entropy_loss_fusion true
"""
VERL = """\
torchrun --standalone --nnodes=1 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer \\
  data.micro_batch_size_per_gpu=2 data.max_length=3072 data.train_batch_size=96 \\
  model.partial_pretrain=Qwen/Qwen2.5-7B-Instruct ulysses_sequence_parallel_size=4
"""
PPO = """\
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 data.max_prompt_length=512 \\
  data.max_response_length=1536 actor_rollout_ref.model.path=Qwen/Qwen3-8B \\
  actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=5 trainer.n_gpus_per_node=8 trainer.nnodes=2
"""
OPENRLHF = """\
set -x
read -r -d '' training_commands <<EOF
openrlhf.cli.train_sft --max_len 3000 --dataset a/b --train_batch_size 96 --micro_train_batch_size 3 \\
   --pretrain meta-llama/Llama-3.1-8B --zero_stage 3 --bf16 --gradient_checkpointing --packing_samples --adam_offload
EOF
if [[ ${1} != "slurm" ]]; then
    deepspeed --num_gpus 8 --module $training_commands
fi
"""
SLIME = """\
source "${SCRIPT_DIR}/models/qwen3-4B.sh"
PERF=(--tensor-model-parallel-size 2 --sequence-parallel --use-dynamic-batch-size --max-tokens-per-gpu 9216)
GRPO=(--advantage-estimator grpo --eps-clip 0.2)
ROLLOUT=(--rollout-batch-size 32 --n-samples-per-prompt 6 --rollout-max-response-len 4096 --global-batch-size 192)
ray job submit -- python3 train.py --actor-num-nodes 2 --actor-num-gpus-per-node 8 ${MODEL_ARGS[@]} ${PERF[@]} \\
    ${GRPO[@]} ${ROLLOUT[@]}
"""
OPEN_INSTRUCT = """\
accelerate launch --mixed_precision bf16 --num_machines 1 --num_processes 8 --use_deepspeed \\
    --deepspeed_config_file configs/ds_configs/stage3_no_offloading_accelerate.conf open_instruct/finetune.py \\
    --model_name_or_path meta-llama/Llama-3.1-8B --max_seq_length 4096 --per_device_train_batch_size 1 \\
    --gradient_accumulation_steps 2 --gradient_checkpointing --exp_name mine --dataset_mixer_list a 1.0
"""
TRAINER = """\
torchrun --nproc_per_node=8 --master_port=20001 fastchat/train/train_mem.py --model_name_or_path lmsys/vicuna-7b-v1.5 \\
    --data_path d.json --bf16 True --per_device_train_batch_size 2 --gradient_accumulation_steps 16 \\
    --fsdp "full_shard auto_wrap" --model_max_length 2048 --gradient_checkpointing True --lazy_preprocess True
"""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "deepspeed_chat": (
        CHAT,
        {
            "training.lora.rank": 32,
            "training.seq_len": 640,
            "plan.zero": 2,
            "plan.mbs": 6,
            "training.precision": "fp16",
            "plan.recompute.policy": "none",
            "training.global_batch": 24,
            "training.phase": "lora",
        },
    ),
    "ms_swift": (
        SWIFT,
        {
            "model": "Qwen/Qwen2.5-7B",
            "training.lora.rank": 12,
            "training.seq_len": 3000,
            "plan.zero": 3,
            "plan.mbs": 1,
            "training.global_batch": 16,
            "cluster.devices_per_node": 4,
            "plan.recompute.policy": "full",
        },
    ),
    "ms_swift megatron": (
        MEGATRON_SWIFT,
        {
            "plan.tp": 2,
            "plan.pp": 2,
            "plan.sp": True,
            "plan.mbs": 2,
            "training.global_batch": 24,
            "plan.zero": 1,
            "training.phase": "sft",
            "training.framework": "megatron_core",
        },
    ),
    "verl": (
        VERL,
        {
            "plan.zero": 3,
            "plan.cp": 4,
            "plan.mbs": 2,
            "training.seq_len": 3072,
            "training.global_batch": 96,
            "training.framework": "fsdp1",
            "model": "Qwen/Qwen2.5-7B",
        },
    ),
    "openrlhf": (
        OPENRLHF,
        {
            "plan.zero": 3,
            "plan.offload.optimizer": 1.0,
            "plan.mbs": 3,
            "training.global_batch": 96,
            "training.seq_len": 3000,
            "cluster.devices_per_node": 8,
            "training.precision": "bf16",
        },
    ),
    "open_instruct": (
        OPEN_INSTRUCT,
        {
            "plan.zero": 3,
            "plan.mbs": 1,
            "training.global_batch": 16,
            "training.seq_len": 4096,
            "cluster.devices_per_node": 8,
            "plan.recompute.policy": "full",
        },
    ),
    "hf_trainer": (
        TRAINER.replace("lmsys/vicuna-7b-v1.5", "meta-llama/Llama-2-7b-hf"),
        {
            "plan.zero": 3,
            "plan.mbs": 2,
            "training.global_batch": 256,
            "training.seq_len": 2048,
            "training.precision": "bf16",
            "training.framework": "fsdp1",
        },
    ),
}


def imported(text: str, file: str = "run.sh", **wanted: Any) -> Launch:
    format = formats.detect(text, file)
    return formats.read(format, text, file, Wanted(device="h100-sxm-80gb", **wanted))


@pytest.mark.parametrize("name", CASES)
def test_a_command_is_told_apart_and_read(name: str) -> None:
    text, expected = CASES[name]
    launch = imported(text)
    assert launch.format == name.split(maxsplit=1)[0]
    assert not launch.problems
    assert {path: launch.fields.get(path) for path in expected} == expected
    predict.prepare(launch.scenario())


def test_deepspeed_chat_asks_for_devices_that_the_launcher_takes() -> None:
    [problem] = imported(CHAT.replace("--num_gpus 4 ", "")).problems
    assert problem.field == "--devices-per-node"
    launch = imported(CHAT.replace("--num_gpus 4 ", ""), devices_per_node=2)
    assert not launch.problems
    assert launch.fields["cluster.devices_per_node"] == 2


def test_deepspeed_chat_trains_the_ends_beside_adapters_unless_they_are_alone() -> None:
    fields = imported(CHAT.replace("--only_optimize_lora", "--print_loss")).fields
    assert fields["training.phase"] == "lora"
    assert fields["training.lora.trained"] == ["embedding", "head"]
    assert "training.lora.trained" not in imported(CHAT).fields


@pytest.mark.parametrize(("text", "kind", "what"), [(PPO, "GRPO", "5 samples"), (SLIME, "GRPO", "6 samples")])
def test_post_training_is_said_and_its_step_can_be_read(text: str, kind: str, what: str) -> None:
    launch = imported(text)
    [problem] = launch.problems
    assert f"post-training ({kind})" in problem.rule
    assert what in problem.rule
    assert launch.post_training == kind
    step = imported(text, without=("rollouts",))
    assert not step.problems
    predict.prepare(step.scenario())


def test_the_step_of_verls_actor() -> None:
    fields = imported(PPO, without=("rollouts",)).fields
    assert fields["training.seq_len"] == 2048
    assert fields["training.global_batch"] == 160
    assert fields["plan.mbs"] == 2
    assert (fields["cluster.nodes"], fields["cluster.devices_per_node"]) == (2, 8)


def test_slime_has_its_own_defaults_and_its_model_by_the_name_of_the_sourced_file() -> None:
    fields = imported(SLIME, without=("rollouts",)).fields
    assert fields["model"] == "Qwen/Qwen3-4B"
    assert fields["training.precision"] == "bf16"
    assert fields["plan.zero"] == 1
    assert fields["training.seq_len"] == 4096
    assert "training.dropout" not in fields


def test_slime_reads_the_sourced_file(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    sizes = "--num-layers 2 --hidden-size 512 --ffn-hidden-size 1024 --num-attention-heads 8 --vocab-size 1000 --swiglu"
    (tmp_path / "models" / "qwen3-4B.sh").write_text(f"MODEL_ARGS=({sizes} --disable-bias-linear)\n")
    script = tmp_path / "run.sh"
    script.write_text(SLIME)
    launch = imported(SLIME, str(script), without=("rollouts",))
    assert not launch.problems
    assert launch.fields["model.num_hidden_layers"] == 2


def test_slime_without_a_name_asks_for_the_model() -> None:
    text = SLIME.replace("models/qwen3-4B.sh", "models/mine.sh")
    problems = imported(text, without=("rollouts",)).problems
    assert any(problem.field == "source models/mine.sh" and "--model" in problem.rule for problem in problems)


def test_preferences_pass_two_answers_and_a_reference() -> None:
    plain = imported(SWIFT)
    rlhf = imported(SWIFT.replace("swift sft", "swift rlhf --rlhf_type dpo"))
    assert rlhf.fields["training.reference_passes"] == 1
    assert rlhf.fields["plan.mbs"] == 2 * plain.fields["plan.mbs"]
    orpo = imported(SWIFT.replace("swift sft", "swift rlhf --rlhf_type orpo"))
    assert "training.reference_passes" not in orpo.fields
    grpo = imported(SWIFT.replace("swift sft", "swift rlhf --rlhf_type grpo --num_generations 4"))
    assert "rollouts of 4 samples" in grpo.problems[0].rule


PAIRS = "model_name_or_path: mistralai/Mistral-7B-v0.1\ntorch_dtype: bfloat16\nbf16: true\nmax_length: 1024\n"
PAIRS += "per_device_train_batch_size: 8\n"


@pytest.mark.parametrize(
    ("more", "file", "batch", "reference"),
    [
        ("beta: 0.01\nmax_prompt_length: 512\n", "run.yaml", 16, 1),
        ("beta: 0.01\nmax_prompt_length: 512\noutput_dir: zephyr-orpo\n", "run.yaml", 16, None),
        ("beta: 0.01\n", "config_orpo.yaml", 16, None),
        ("", "run.yaml", 8, None),
    ],
)
def test_files_of_preferences_are_not_sft(more: str, file: str, batch: int, reference: int | None) -> None:
    launch = imported(PAIRS + more, file)
    assert launch.format == "trl"
    assert not launch.problems
    assert launch.fields["training.global_batch"] == batch
    assert launch.fields.get("training.reference_passes") == reference


def test_a_file_of_rollouts_is_not_sft() -> None:
    [problem] = imported(PAIRS + "num_generations: 16\nmax_completion_length: 512\nuse_vllm: true\n").problems
    assert "post-training (GRPO): rollouts of 16 samples" in problem.rule


def test_sequence_parallelism_and_offload_of_megatron_swift() -> None:
    fields = imported(MEGATRON_SWIFT).fields
    assert fields["plan.sp"] is True and "plan.offload.optimizer" not in fields
    alone = imported(MEGATRON_SWIFT.replace("--tensor_model_parallel_size 2", "--optimizer_cpu_offload true")).fields
    assert "plan.sp" not in alone and alone["plan.offload.optimizer"] == 1.0


def test_rows_that_verl_pads_are_said() -> None:
    padded = imported(VERL)
    packed = imported(VERL.rstrip() + " use_remove_padding=true\n")
    assert any(left.name == "data.max_length" for left in padded.unread)
    assert not any(left.name == "data.max_length" for left in packed.unread)
