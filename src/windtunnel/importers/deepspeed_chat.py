"""DeepSpeed-Chat's steps 1 to 3 as a scenario: supervised fine-tuning; reward models and PPO are recognised.

Names and defaults: deepspeedai/DeepSpeedExamples `applications/DeepSpeed-Chat/training/step*/main.py` at commit
38ef1962d938. Settings without a field are data, `flags/deepspeed_chat.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.program_lines import InOrder
from windtunnel.importers.settings import Settings

FORMAT = "deepspeed_chat"
TITLE = "DeepSpeed-Chat settings"
OVER = ("trl", "hf_trainer")
PROGRAM = InOrder(parts=(re.compile(r"\bdeepspeed\b"), re.compile(r"\s\S+\.py(?=\s|$)")))
MARKS = re.compile(
    r"--(only_optimize_lora|lora_module_name|actor_lora_module_name|actor_zero_stage|num_padding_at_beginning"
    r"|sft_only_data_path|enable_mixed_precision_lora|actor_model_name_or_path|print_loss)\b"
)
ADAPTERS = tune.AdapterNames(
    rank=("lora_dim",),
    targets=("lora_module_name",),
    dropout=("(dropout)",),
    dora=("(dora)",),
    usual_said="every linear layer",
)


def detect(text: str) -> bool:
    """Whether a text starts one of DeepSpeed-Chat's programs: options that only they have."""
    if "deepspeed" not in text or re.search(r"\bdef |add_argument", text):
        return False
    return MARKS.search(text) is not None or (
        re.search(r"--data_split\b", text) is not None and re.search(r"--zero_stage\b", text) is not None
    )


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        launch.wrong("", "starts no program with deepspeed")
        return launch
    s = found.settings(launch)
    started = launched.started_by(found, launch, wanted)
    devices = launched.cluster(launch, wanted, found, started)
    tune.base_model(launch, s, wanted, "model_name_or_path", "actor_model_name_or_path")
    prompts = [s.get("max_prompt_seq_len"), s.get("max_answer_seq_len")]
    if all(isinstance(part, int) for part in prompts):
        s.values.setdefault("max_seq_len", sum(prompts))
    tune.sequence_length(launch, s, wanted, "max_seq_len", usual=(512, "no max_seq_len: the tool's default"))
    dtype = s.choice({"fp16": "fp16", "bf16": "bf16"}, "dtype")
    if dtype is None:
        launch.set("training.precision", "fp16", "no dtype: the tool's default")
    else:
        s.put("training.precision", dtype, "dtype")
    _method(launch, s)
    launch.set("training.framework", wanted.framework or "deepspeed", "the program")
    stage = s.number("zero_stage", "actor_zero_stage", least=0)
    launch.set("plan.zero", stage or 0, *(s.said("zero_stage", "actor_zero_stage") if stage else ("no zero_stage",)))
    if s.get("offload", "actor_offload") is True or s.get("offload_optimizer_device"):
        s.put("plan.offload.optimizer", 1.0, "offload", "actor_offload", "offload_optimizer_device")
        if stage == 3:
            s.put("plan.offload.params", 1.0, "offload", "actor_offload", "offload_optimizer_device")
    launch.set("plan.dp", "auto", "devices")
    on = s.get("gradient_checkpointing", "actor_gradient_checkpointing") is True
    launch.set("plan.recompute.policy", "full" if on else "none", *s.said("gradient_checkpointing"))
    names = ("per_device_train_batch_size", "gradient_accumulation_steps")
    tune.batch(launch, s, wanted, devices, 1, names, 16)
    if "actor_model_name_or_path" in s.values:
        what = "an actor, a critic, a reward and a reference model, and answers that the actor writes"
        launched.post_training(launch, wanted, "PPO", what, s.said("actor_model_name_or_path"))
    elif "num_padding_at_beginning" in s.values or "reward" in found.program:
        launch.leave("num_padding_at_beginning", "", None, "a reward model on pairs of answers", "algorithm")
    elif "dpo" in found.program or "beta" in s.values:
        s.get("beta")
        tune.objective(launch, "dpo", found.program, found.line)
    s.rest()
    return launch


def _method(launch: Launch, s: Settings) -> None:
    """All weights, or adapters alone."""
    rank = s.get("lora_dim", "actor_lora_dim")
    alone = s.get("only_optimize_lora") is True
    module = s.values.pop("lora_module_name", None) or s.values.pop("actor_lora_module_name", None)
    if not rank:
        launch.set("training.phase", "sft", "no lora_dim")
        return
    s.put("training.phase", "lora", "lora_dim", "actor_lora_dim")
    if not alone:  # weights with adapters are frozen (dschat/utils/module/lora.py), the ends are not
        launch.set("training.lora.trained", ["embedding", "head"], "no only_optimize_lora")
    if "actor_lora_dim" in s.values:
        s.values.setdefault("lora_dim", rank)
    tune.adapters(launch, s, ADAPTERS, None)
    if module is not None:
        said = f"lora_module_name: every linear layer below {module}"
        launch.origin["training.lora.targets"] = (said, s.line("lora_module_name"))
