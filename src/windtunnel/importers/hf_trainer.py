"""A script on Transformers' `Trainer` as a scenario: `--model_name_or_path` with its `TrainingArguments`.

What the script does beside them is its own: alpaca's, FastChat's and LLaVA's `train.py`, `run_clm.py`, scripts of one
project. Names and defaults: huggingface/transformers `src/transformers/training_args.py`. Settings without a field are
those of TRL, `flags/hf_trainer.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers import accelerate, launched
from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.program_lines import InOrder
from windtunnel.importers.settings import Settings

FORMAT = "hf_trainer"
TITLE = "settings of Transformers' Trainer"
PROGRAM = InOrder(
    parts=(
        re.compile(r"(?:torchrun|python3?|deepspeed|accelerate launch|-m torch\.distributed\S*|srun)\b"),
        re.compile(r"\s(?:-m [\w.]+|\S+\.py)(?=\s|$)"),
    ),
    later=re.compile(r"--model_name_or_path"),
    across=True,
)
MARKS = ("--model_name_or_path", "--per_device_train_batch_size")
COMMAND = InOrder(
    parts=(
        re.compile(r"(?:torchrun|python3?|deepspeed|accelerate\s+launch|torch\.distributed\S*)\b"),
        re.compile(r"--model_name_or_path\b"),
    )
)
ADAPTERS = tune.AdapterNames(
    rank=("lora_r", "lora_rank"),
    targets=("lora_target_modules", "lora_target", "target_modules"),
    dropout=("lora_dropout",),
    dora=("use_dora",),
    trained=("lora_modules_to_save", "modules_to_save"),
    usual_targets=("q", "v"),
    usual_said="PEFT's default (queries and values)",
)
LORA = ("lora_enable", "use_lora", "use_peft", "lora")
LENGTHS = ("model_max_length", "max_seq_length", "max_length", "max_seq_len", "block_size", "cutoff_len", "max_len")
NAMES = ("per_device_train_batch_size", "gradient_accumulation_steps")


def detect(text: str) -> bool:
    """Whether a text starts a script with arguments of the trainer."""
    return all(mark in text for mark in MARKS) and COMMAND.search(text) is not None and "add_argument" not in text


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        launch.wrong("", "starts no script that can be read")
        return launch
    s = found.settings(launch)
    started = launched.started_by(found, launch, wanted)
    devices = launched.cluster(launch, wanted, found, started)
    stored = tune.base_model(launch, s, wanted, "model_name_or_path")
    tune.given_length(launch, s, wanted, *LENGTHS)
    trainer_step(launch, s, started, stored)
    launch.set("plan.dp", "auto", "devices")
    if wanted.framework:
        launch.set("training.framework", wanted.framework, "--framework of windtunnel import")
    tune.batch(launch, s, wanted, devices, 1, NAMES, 8)
    objective = re.search(r"(?:^|[/_.])(dpo|orpo|kto|simpo|cpo)(?:[_.]|$)", found.program)
    rollouts = re.search(r"(?:^|[/_.])(grpo|ppo|rloo|gspo|dapo|reinforce)(?:[_.]|$)", found.program)
    if rollouts or "num_generations" in s.values or "reward_funcs" in s.values:
        samples = s.get("num_generations") or 8
        s.get("reward_funcs", "max_completion_length", "max_prompt_length")
        kind = (rollouts[1] if rollouts else "grpo").upper()
        what = f"rollouts of {samples} samples beside the step"
        launched.post_training(launch, wanted, kind, what, (found.program, found.line))
    elif objective:
        tune.objective(launch, objective[1], found.program, found.line)
    s.rest()
    return launch


def trainer_step(launch: Launch, s: Settings, started: accelerate.Started, stored: str | None) -> None:
    """Precision, method, sharding, optimizer and recomputation as `TrainingArguments` state them."""
    half = next((kind for kind in ("bf16", "fp16") if s.get(kind) is True), None)
    if half is not None:
        s.put("training.precision", half, half)
    else:
        launch.set("training.precision", started.precision or "fp32", "neither bf16 nor fp16")
    lora = any(s.get(name) is True for name in LORA) or bool(s.get("lora_r", "lora_rank"))
    bits = s.get("bits", "quantization_bit")
    four = s.get("load_in_4bit", "q_lora", "use_qlora") is True or bits == 4
    eight = s.get("load_in_8bit") is True or bits == 8
    if lora or four:
        launch.set("training.phase", "lora", *s.said(*LORA, "lora_r", "q_lora"))
        tune.adapters(launch, s, ADAPTERS, "nf4" if four else "int8" if eight else stored)
    else:
        launch.set("training.phase", "sft", "no adapters")
    config, fsdp = s.get("deepspeed"), s.get("fsdp")
    launch.set("training.framework", "transformers" if lora or not half else "ddp", "the trainer")
    launch.set("plan.zero", started.zero or 0, started.said if started.zero else "neither deepspeed nor fsdp")
    if isinstance(config, str):
        tune.deepspeed(launch, s, "deepspeed", config)
    elif fsdp:
        words = " ".join(map(str, fsdp)) if isinstance(fsdp, list) else str(fsdp)
        s.put("plan.zero", 2 if "shard_grad_op" in words else 3 if "shard" in words else 0, "fsdp")
        if "offload" in words:
            s.put("plan.offload.params", 1.0, "fsdp")
    if started.fsdp or fsdp:
        launch.set("training.framework", "transformers" if lora else "fsdp1", "FSDP")
    elif started.deepspeed:
        launch.set("training.framework", "deepspeed", started.said)
    if started.offload:
        launch.set("plan.offload.optimizer", 1.0, started.said)
    s.get("fsdp_transformer_layer_cls_to_wrap", "fsdp_config")
    tune.optimizer(launch, s, "optim")
    again = s.get("gradient_checkpointing", "use_gradient_checkpointing")
    launch.set(
        "plan.recompute.policy",
        "full" if again is True or started.checkpoints else "none",
        *s.said("gradient_checkpointing"),
    )
    kernel = str(s.get("attn_implementation") or "")
    if "flash" in kernel or any(
        s.get(name) is True for name in ("use_flash_attn", "flash_attn", "use_flash_attention")
    ):
        launch.set("training.attention", "flash2", *s.said("attn_implementation", "use_flash_attn", "flash_attn"))
    if s.get("use_liger_kernel", "use_liger") is True:
        s.put("training.fused_cross_entropy", True, "use_liger_kernel", "use_liger")
    if s.get("torch_compile") is True:
        s.put("training.compile", True, "torch_compile")
