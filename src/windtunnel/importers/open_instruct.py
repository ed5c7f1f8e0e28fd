"""Open Instruct's `finetune.py` and `dpo_tune*.py` as a scenario; its trainers with rollouts are recognised.

Names and defaults: allenai/open-instruct `open_instruct/finetune.py`, `dpo_tune_cache.py` and `grpo_fast.py`. Weights
are loaded in bf16, each device takes one sequence unless stated, and Accelerate starts the processes.
"""

from __future__ import annotations

import re

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.named_files import text_beside
from windtunnel.importers.yaml_settings import read_mapping, top_level_keys

FORMAT = "open_instruct"
TITLE = "Open Instruct settings"
OVER = ("trl", "hf_trainer", "deepspeed_chat", "llama_factory")
PROGRAM = re.compile(r"\bopen_instruct/(\w+)\.py\b|-m open_instruct\.(\w+)\b")
SIGNS = frozenset(
    "dataset_mixer_list dataset_mixer exp_name use_slow_tokenizer try_launch_beaker_eval_jobs with_tracking add_bos"
    " checkpointing_steps".split()
)
ADAPTERS = tune.AdapterNames(
    rank=("lora_rank",),
    targets=("(targets)",),
    dropout=("lora_dropout",),
    dora=("(dora)",),
    usual_rank=64,
    usual_dropout=0.1,
    usual_said="Open Instruct's default",
)
ROLLOUTS = re.compile(r"grpo|ppo|rloo|reinforce|online_dpo")


def detect(text: str) -> bool:
    """Whether a text starts Open Instruct or is one of its files."""
    if PROGRAM.search(text):
        return True
    keys = top_level_keys(text)
    return "model_name_or_path" in keys and len(keys & SIGNS) >= 2


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command or a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        found = launched.Launched(
            program="dpo_tune.py" if re.search(r"^(dpo_\w+|beta):", text, re.M) else "finetune.py"
        )
        found.values, found.lines = read_mapping(text, launch)
    elif found.rest and (inner := text_beside(file, found.rest[0][0])) is not None:
        inside, _ = read_mapping(inner, launch)
        found.values = {**inside, **found.values}
    s = found.settings(launch)
    started = launched.started_by(found, launch, wanted)
    for name in ("num_processes", "num_machines"):
        s.get(name)
    devices = launched.cluster(launch, wanted, found, started)
    stored = tune.base_model(launch, s, wanted, "model_name_or_path")
    named = PROGRAM.search(found.program)
    program = next((part for part in (named.groups() if named else ()) if part), found.program)
    if ROLLOUTS.search(program):
        length = [s.get("max_prompt_token_length", "max_prompt_len"), s.get("response_length", "max_response_len")]
        if all(isinstance(part, int) for part in length):
            s.values.setdefault("max_seq_length", sum(length))
    tune.given_length(launch, s, wanted, "max_seq_length", "pack_length", "max_token_length")
    launch.set("training.precision", started.precision or "bf16", "mixed_precision of the launcher")
    lora = s.get("use_lora") is True or s.get("use_qlora") is True
    launch.set("training.phase", "lora" if lora else "sft", "use_lora" if lora else "no use_lora")
    if lora:
        tune.adapters(launch, s, ADAPTERS, "nf4" if s.get("use_qlora") is True else stored)
    launch.set(
        "training.framework", wanted.framework or ("deepspeed" if started.deepspeed else "transformers"), "the program"
    )
    launch.set("plan.zero", started.zero or 0, started.said)
    if isinstance(s.get("deepspeed_stage"), int):
        s.put("plan.zero", s.get("deepspeed_stage"), "deepspeed_stage")
        launch.set("training.framework", wanted.framework or "deepspeed", "deepspeed_stage")
    if (size := s.number("sequence_parallel_size") or 1) > 1:
        s.put("plan.cp", size, "sequence_parallel_size")
        launch.set("plan.cp_kind", "all_to_all", "Ulysses")
    if started.offload:
        launch.set("plan.offload.optimizer", 1.0, started.said)
    launch.set("plan.dp", "auto", "devices")
    on = s.get("gradient_checkpointing") is True
    launch.set("plan.recompute.policy", "full" if on else "none", *s.said("gradient_checkpointing"))
    if s.get("use_flash_attn") is not False:
        launch.set("training.attention", "flash2", *s.said("use_flash_attn"))
    tune.batch(launch, s, wanted, devices, 1, ("per_device_train_batch_size", "gradient_accumulation_steps"), 8)
    if ROLLOUTS.search(program):
        kind = "GRPO" if "grpo" in program else "PPO" if "ppo" in program else program
        samples = s.get("num_samples_per_prompt_rollout")
        what = f"rollouts of {samples or 'several'} samples by vLLM beside the step"
        launched.post_training(launch, wanted, kind, what, (found.program, found.line))
        s.get("loss_type", "num_learners_per_node", "single_gpu_mode")
    elif "dpo" in program:
        s.get("loss_type", "dpo_loss_type")
        tune.objective(launch, "dpo", found.program, found.line)
    elif "reward" in program:
        launch.leave(found.program, "", found.line, "a reward model on pairs of answers", "algorithm")
    s.rest()
    return launch
