"""A torchtune recipe's YAML file as a scenario.

Names and defaults: pytorch/torchtune `recipes/configs/` and `torchtune/models/` (0.4 to 0.7). Which catalogue model a
builder makes, and the settings without a field, are data, `flags/torchtune.yaml`.
"""

from __future__ import annotations

import re
from typing import Any

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings, options
from windtunnel.importers.yaml_settings import read_mapping

FORMAT = "torchtune"
TITLE = "torchtune YAML"
COMPONENT = re.compile(r"^[ \t]*_component_:[ \t]*[\"']?torchtune\.", re.MULTILINE)
ATTENTION_TARGETS = ["q_proj", "v_proj"]
ADAPTERS = tune.AdapterNames(
    rank=("model.lora_rank",),
    targets=("model.lora_attn_modules",),
    dropout=("model.lora_dropout",),
    dora=("model.use_dora",),
    usual_said="the builder's default",
)
CHUNKED = ("CEWithChunkedOutputLoss", "LinearCrossEntropyLoss")
UNLIMITED = 2048
"""Tokens that a row counts where the file sets no limit."""


def detect(text: str) -> bool:
    """Whether a text is a torchtune configuration."""
    return COMPONENT.search(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = Settings(launch, *read_mapping(text, launch))
    if launch.problems:
        return launch
    if not _trains(launch, s):
        return launch
    per_node, several = _devices(text, s)
    devices = tune.cluster(launch, wanted, per_node, several=several)
    builder = _model(launch, s, wanted)
    _lengths(launch, s, wanted)
    _training(launch, s, builder)
    _plan(launch, s, several=several)
    if wanted.framework:
        launch.set("training.framework", wanted.framework, "--framework of windtunnel import")
    tp = launch.fields.get("plan.tp", 1)
    tune.batch(launch, s, wanted, devices, tp, ("batch_size", "gradient_accumulation_steps"), 1)
    if re.search(r"DPO|RSO", str(s.get("loss._component_"))):
        tune.pairs(launch, "loss._component_", s.line("loss._component_"), reference=True)
    if not s.get("dataset.packed"):
        s.leave(tune.UNPACKED, "batch_size")
    s.rest()
    return launch


def _trains(launch: Launch, s: Settings) -> bool:
    """Whether the recipe is one of supervised fine-tuning; a problem where it is not."""
    if "optimizer._component_" not in s.values:
        launch.wrong("optimizer", "is not set: the recipe trains nothing (it generates, evaluates or quantises)")
        return False
    loss = str(s.get("loss._component_") or "").rsplit(".", 1)[-1]
    second = next((k for k in s.values if k.startswith(("teacher_model.", "reward_", "policy_model."))), None)
    if second is not None or re.search(r"PPO|GRPO", loss):
        name = second or "loss._component_"
        why = "trains with a second model or rollouts, which one training step does not hold"
        launch.wrong(name, why, s.values.get(name), s.line(name))
        return False
    return True


def _devices(text: str, s: Settings) -> tuple[tuple[int, str, int | None] | None, bool]:
    """Devices of the `tune run` line in the file's comments, and whether there are several."""
    found = re.search(r"^#.*?--nproc[-_]per[-_]node[ =](\d{1,15})(?!\d)", text, re.MULTILINE)
    if found:
        line = text.count("\n", 0, found.start(1)) + 1
        return (int(found.group(1)), "tune run in the file's comments", line), int(found.group(1)) > 1
    names = ("fsdp_cpu_offload", "tensor_parallel_dim", "data_parallel_shard_dim", "custom_sharded_layers")
    several = any(s.get(name) for name in names) or bool(re.search(r"^#.*_distributed\b", text, re.MULTILINE))
    return None, several


def _model(launch: Launch, s: Settings, wanted: Wanted) -> str:
    """Set the model that a builder makes; returns how it trains: full, lora or qlora."""
    component = str(s.get("model._component_") or "")
    line = s.line("model._component_")
    name = component.rsplit(".", 1)[-1]
    found = re.match(r"(q?lora)_(.*)", name)
    kind, base = (found.group(1), found.group(2)) if found else ("full", name)
    models: dict[str, str] = options(FORMAT)["models"]
    stem = re.sub(r"_(base|instruct)$", "", base)
    entry = models.get(base) or models.get(stem)
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
    elif entry is None:
        rule = "is no builder whose model the catalogue has; --model names one"
        launch.wrong("model._component_", rule, component, line)
    else:
        launch.named_model(entry, f"model._component_ {name}", line)
    return kind


def _lengths(launch: Launch, s: Settings, wanted: Wanted) -> None:
    """Tokens of a row: the tokenizer's limit, or a stand-in where there is none."""
    why = f"the tokenizer has no max_seq_len: rows are as long as the data; {UNLIMITED} stands in, --seq-len says it"
    names = ("tokenizer.max_seq_len", "dataset.max_seq_len")
    tune.sequence_length(launch, s, wanted, *names, usual=(UNLIMITED, why))


def _training(launch: Launch, s: Settings, builder: str) -> None:
    """Precision, method, optimizer, loss and kernels."""
    launch.set("training.framework", "torchtune", "the format of the file")
    precision = s.choice({"bf16": "bf16", "fp32": "fp32", "fp16": "fp16"}, "dtype")
    launch.set("training.precision", precision or "bf16", *s.said("dtype"))
    if builder == "full":
        launch.set("training.phase", "sft", "a builder without adapters")
    else:
        launch.set("training.phase", "lora", "model._component_", s.line("model._component_"))
        _targets(s)
        quantised = builder == "qlora" or s.get("model.quantize_base") is True
        tune.adapters(launch, s, ADAPTERS, "nf4" if quantised else None)
    tune.optimizer(launch, s, "optimizer._component_")
    if s.switch("optimizer_in_bwd"):
        s.put("training.optimizer_in_backward", True, "optimizer_in_bwd")
    loss = str(s.get("loss._component_") or "").rsplit(".", 1)[-1]
    if loss in CHUNKED:
        s.put("training.fused_cross_entropy", True, "loss._component_")
    compiled: Any = s.get("compile")
    if compiled is None and s.get("compile.model") is True:
        compiled = True
    if isinstance(compiled, bool):
        s.put("training.compile", compiled, "compile", "compile.model")


def _targets(s: Settings) -> None:
    """Put attention's and the MLP's adapters into one list, as other tools state them."""
    chosen = s.items("model.lora_attn_modules")
    modules = [str(name) for name in (ATTENTION_TARGETS if chosen is None else chosen)]
    if s.switch("model.apply_lora_to_mlp"):
        modules += ["gate_proj", "up_proj", "down_proj"]
    if s.switch("model.apply_lora_to_output"):
        s.leave("an adapter at the head: left out", "model.apply_lora_to_output")
    s.values["model.lora_attn_modules"] = modules


def _plan(launch: Launch, s: Settings, *, several: bool) -> None:
    """Sharding, recomputation and offloading."""
    launch.set("plan.dp", "auto", "devices / tp")
    launch.set("plan.zero", 3 if several else 0, "distributed recipes shard with FSDP2" if several else "one device")
    s.take("plan.tp", "tensor_parallel_dim")
    s.get("data_parallel_shard_dim")
    if s.switch("fsdp_cpu_offload"):
        for part in ("params", "optimizer"):
            s.put(f"plan.offload.{part}", 1.0, "fsdp_cpu_offload")
    checkpointed = s.switch("enable_activation_checkpointing")
    if s.get("ac_mode") == "selective":
        s.leave("every second layer recomputes; counted as all", "ac_mode", "ac_option")
        checkpointed = True
    s.put("plan.recompute.policy", "full" if checkpointed else "none", "enable_activation_checkpointing")
    if s.switch("enable_activation_offloading"):
        s.put("plan.offload.activations", 1.0, "enable_activation_offloading")
