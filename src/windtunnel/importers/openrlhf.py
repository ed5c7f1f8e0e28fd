"""OpenRLHF as a scenario: `train_sft`, `train_dpo`, `train_kto`; reward models and PPO by Ray are recognised.

Names and defaults: OpenRLHF/OpenRLHF `openrlhf/cli/train_sft.py` at commit 006cd7081fc2 and later releases, whose
options carry a section (`--ds.zero_stage`). Settings without a field are data, `flags/openrlhf.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings

FORMAT = "openrlhf"
TITLE = "OpenRLHF settings"
OVER = ("trl", "hf_trainer", "deepspeed_chat", "vllm")
PROGRAM = re.compile(
    r"\bopenrlhf[./]cli[./](train_\w+)(?:\.py)?\b|(?:^|[\s/])(train_(?:sft|dpo|kto|rm|ppo_ray|ppo))\.py\b"
)
MARKS = re.compile(r"--(pretrain|micro_train_batch_size|model\.model_name_or_path|train\.micro_batch_size|max_len)\b")
SECTIONS = (
    "model",
    "data",
    "train",
    "ds",
    "adam",
    "actor",
    "ckpt",
    "logger",
    "eval",
    "rollout",
    "algo",
    "vllm",
    "ref",
    "reward",
    "critic",
    "fsdp",
    "lora",
    "optim",
    "dpo",
)
ADAPTERS = tune.AdapterNames(
    rank=("lora_rank",),
    targets=("target_modules",),
    dropout=("lora_dropout",),
    dora=("(dora)",),
    usual_said="OpenRLHF's default",
)
RENAMED = {
    "model_name_or_path": "pretrain",
    "batch_size": "train_batch_size",
    "micro_batch_size": "micro_train_batch_size",
    "gradient_checkpointing_enable": "gradient_checkpointing",
    "rank": "lora_rank",
    "lora.rank": "lora_rank",
}


def detect(text: str) -> bool:
    """Whether a text starts one of OpenRLHF's trainers."""
    return PROGRAM.search(text) is not None and MARKS.search(text) is not None and "add_argument" not in text


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        launch.wrong("", "starts OpenRLHF nowhere that can be read")
        return launch
    for name in list(found.values):
        section, dot, own = name.partition(".")
        if dot and (section in SECTIONS[:6] or name in RENAMED):
            plain = RENAMED.get(name, RENAMED.get(own, own))
            found.values.setdefault(plain, found.values.pop(name))
            found.lines.setdefault(plain, found.lines.get(name, 0))
    s = found.settings(launch)
    program = PROGRAM.search(found.program)
    kind = next((part for part in (program.groups() if program else ()) if part), "train_sft").removeprefix("train_")
    started = launched.started_by(found, launch, wanted)
    if kind.startswith("ppo"):
        for name, attribute in (("num_nodes", "nodes"), ("num_gpus_per_node", "per_node")):
            names = (f"actor_{name}", f"actor.{name}")
            if isinstance(value := s.get(*names), int):
                setattr(started, attribute, (value, *s.said(*names)))
    devices = launched.cluster(launch, wanted, found, started)
    stored = tune.base_model(launch, s, wanted, "pretrain")
    parts = [s.get("prompt_max_len", "data.prompt_max_len"), s.get("generate_max_len", "rollout.generate_max_len")]
    if all(isinstance(part, int) for part in parts):
        s.values.setdefault("max_len", sum(parts))
    usual = (2048 if kind == "sft" else 512, "no max_len: OpenRLHF's default")
    tune.sequence_length(launch, s, wanted, "max_len", usual=usual)
    half = s.get("bf16") is True or (str(s.get("param_dtype")) in ("bf16", "None") and "param_dtype" in s.values)
    if half:
        s.put("training.precision", "bf16", "bf16", "param_dtype")
    elif str(s.get("param_dtype")) == "fp16":
        s.put("training.precision", "fp16", "param_dtype")
    else:
        launch.assume("training.precision", "bf16", "no bf16: the default of releases since 0.9")
    rank = s.get("lora_rank")
    if rank:
        s.put("training.phase", "lora", "lora_rank")
        tune.adapters(launch, s, ADAPTERS, "nf4" if s.get("load_in_4bit") is True else stored)
    else:
        launch.set("training.phase", "sft", "no lora_rank")
    launch.set("training.framework", wanted.framework or "deepspeed", "OpenRLHF trains with DeepSpeed")
    _plan(launch, s)
    inner = launch.size("tp") * launch.size("cp")
    micro, batch = ("micro_train_batch_size",), ("train_batch_size",)
    tune.whole_batch(launch, s, wanted, micro, batch, (8, 128))
    if devices is not None and devices % inner:
        launch.wrong("cluster", f"tp · ring = {inner} must divide the {devices} devices; --nodes changes them")
    if kind.startswith("ppo"):
        samples = s.get("n_samples_per_prompt", "rollout.n_samples_per_prompt") or 1
        estimator = str(s.get("advantage_estimator", "algo.advantage.estimator") or "gae")
        name = {"gae": "PPO", "group_norm": "GRPO"}.get(estimator, estimator.upper())
        engines = s.get("vllm_num_engines", "vllm.num_engines") or 1
        what = f"rollouts of {samples} samples by {engines} engines of vLLM beside the step"
        launched.post_training(launch, wanted, name, what, (found.program, found.line))
    elif kind in ("rm", "prm"):
        launch.leave(found.program, "", found.line, "a reward model on pairs of answers", "algorithm")
    elif kind != "sft":
        tune.objective(launch, kind, found.program, found.line)
    elif not s.get("packing_samples"):
        s.leave(tune.UNPACKED, "max_len")
    s.rest()
    return launch


def _plan(launch: Launch, s: Settings) -> None:
    """Sharding, axes, recomputation."""
    stage = s.get("zero_stage")
    digits = re.match(r"[0-3]", str(stage)) if stage is not None else None
    if stage is not None and digits is None:
        launch.wrong("zero_stage", "must be 0 to 3", stage, s.line("zero_stage"))
    launch.set("plan.zero", int(digits[0]) if digits else 2, *s.said("zero_stage"))
    if s.get("adam_offload") is True:
        s.put("plan.offload.optimizer", 1.0, "adam_offload")
    ring, tp = s.number("ring_attn_size") or 1, s.number("ds_tensor_parallel_size", "tensor_parallel_size") or 1
    if ring > 1:
        s.put("plan.cp", ring, "ring_attn_size")
    if tp > 1:
        s.put("plan.tp", tp, "ds_tensor_parallel_size", "tensor_parallel_size")
    launch.set("plan.dp", "auto", "devices / (tp · cp)")
    on = s.get("gradient_checkpointing") is True
    launch.set("plan.recompute.policy", "full" if on else "none", *s.said("gradient_checkpointing"))
    if s.get("flash_attn") is True or "flash" in str(s.get("attn_implementation")):
        s.put("training.attention", "flash2", "flash_attn", "attn_implementation")
