"""A YAML file of ROLL: post-training is recognised, and the step of the policy that it trains can be read.

Names and defaults: alibaba/ROLL `examples/` (rlvr_config_sglang.yaml at commit 5edcd1b00070).
"""

from __future__ import annotations

import re

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.training_tables import names_of, settings_of

FORMAT = "roll"
TITLE = "ROLL configuration"
OVER = ("trl", "axolotl", "llama_factory", "megatron_bridge")
OWN = frozenset({"actor_train.strategy_args", "actor_train.training_args", "sft_train.strategy_args"})
CONFIG = "strategy_args.strategy_config."


def detect(text: str) -> bool:
    """Whether a text is a file of ROLL."""
    return "strategy_args" in text and bool(names_of(text) & OWN)


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    supervised = any(name.startswith("sft_train.") for name in s.values)
    p = "sft_train." if supervised else "actor_train."
    per_node = s.number("num_gpus_per_node")
    mapping = s.get(p + "device_mapping")
    count = len(mapping) if isinstance(mapping, list) else None
    if isinstance(mapping, str) and (
        ends := [int(part) for part in re.findall(r"\d{1,15}", mapping)]
    ):  # list(range(0,8))
        count = ends[-1] - (ends[0] if len(ends) > 1 else 0)
    size = count or per_node
    nodes = max(-(-size // per_node), 1) if size and per_node else None
    each = min(size, per_node) if size and per_node else None
    said = (p + "device_mapping", s.line(p + "device_mapping"))
    devices = launch.cluster(wanted, (nodes, *said) if nodes else None, (each, *said) if each else None)
    stored = tune.base_model(launch, s, wanted, "pretrain", p + "model_args.model_name_or_path")
    lengths = [s.get("prompt_length"), s.get("response_length")]
    if all(isinstance(length, int) for length in lengths):
        s.values.setdefault("sequence_length", sum(lengths))
    tune.given_length(launch, s, wanted, "sequence_length", "max_seq_length")
    launch.set("training.precision", s.dtype(p + "model_args.dtype") or "bf16", *s.said(p + "model_args.dtype"))
    strategy = str(s.get(p + "strategy_args.strategy_name"))
    inner = 1
    for axis, name in (("tp", "tensor"), ("pp", "pipeline"), ("ep", "expert")):
        value = s.number(f"{p}{CONFIG}{name}_model_parallel_size") or 1
        if value > 1:
            s.put(f"plan.{axis}", value, f"{p}{CONFIG}{name}_model_parallel_size")
            inner *= value if axis != "ep" else 1
    context = s.number(p + CONFIG + "context_parallel_size", p + "model_args.ulysses_size") or 1
    if context > 1:
        s.put("plan.cp", context, p + CONFIG + "context_parallel_size")
        inner *= context
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    deepspeed = "deepspeed" in strategy
    stage = s.number(p + CONFIG + "zero_optimization.stage", least=0)
    usual = 1 if "megatron" in strategy else 3
    launch.set("plan.zero", stage if stage is not None else usual, f"strategy {strategy}")
    framework = "deepspeed" if deepspeed else "megatron_core" if "megatron" in strategy else "fsdp1"
    launch.set("training.framework", wanted.framework or framework, *s.said(p + "strategy_args.strategy_name"))
    off = s.get(p + "model_args.disable_gradient_checkpointing") is True
    launch.set(
        "plan.recompute.policy", "none" if off else "full", *s.said(p + "model_args.disable_gradient_checkpointing")
    )
    rank = s.number(p + "model_args.lora_rank") or 0
    launch.set("training.phase", "lora" if rank else "sft", *s.said(p + "model_args.lora_rank"))
    if rank:
        launch.set("training.lora.rank", rank, *s.said(p + "model_args.lora_rank"))
        if stored:
            launch.set("training.lora.quantized_base", stored, "the checkpoint's name")
    names = (p + "training_args.per_device_train_batch_size", p + "training_args.gradient_accumulation_steps")
    tune.batch(launch, s, wanted, devices, inner, names, 1)
    if not supervised and not any(name.startswith(("actor_infer.", "rollout_batch_size")) for name in s.values):
        tune.objective(launch, "dpo", *s.said("beta"))
    elif not supervised:
        samples = s.get("num_return_sequences_in_group") or 1
        engine = s.get("actor_infer.strategy_args.strategy_name") or "an engine"
        kind = str(s.get("adv_estimator") or "ppo").upper()
        what = f"rollouts of {samples} samples of {s.get('rollout_batch_size') or 'some'} prompts by {engine}"
        launched.post_training(launch, wanted, kind, what, s.said("adv_estimator"))
    s.rest()
    return launch
