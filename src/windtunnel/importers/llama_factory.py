"""A LLaMA-Factory YAML file, or a `llamafactory-cli train` command, as a scenario.

Names and defaults: hiyouga/LLaMA-Factory `src/llamafactory/hparams/` (0.9.x) and the v1 files of the same repository.
Settings without a field are data, `flags/llama_factory.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers import accelerate
from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.named_files import text_beside
from windtunnel.importers.settings import Settings
from windtunnel.importers.shell import read_script
from windtunnel.importers.yaml_settings import read_mapping, top_level_keys
from windtunnel.stacks.weight_formats import BASE, format_of_bits, in_field

FORMAT = "llama_factory"
TITLE = "LLaMA-Factory settings"
SIGNS = frozenset({"stage", "finetuning_type", "cutoff_len", "template", "export_dir", "infer_backend"})
FIRST_SIGNS = frozenset({"train_dataset", "model_class", "peft_config", "dist_config", "kernel_config", "dataset"})
COMMAND = re.compile(r"\bllamafactory-cli\s+train\b|\bsrc/train(_bash)?\.py\b|\bllamafactory(\.cli|/launcher\.py)\b")
ADAPTERS = tune.AdapterNames(
    rank=("lora_rank", "peft_config.r"),
    targets=("lora_target", "peft_config.target_modules"),
    dropout=("lora_dropout", "peft_config.lora_dropout"),
    dora=("use_dora",),
    trained=("additional_target",),
    usual_said="LLaMA-Factory's default",
)
KERNELS = {"fa2": "flash2", "fa3": "flash3", "sdpa": "sdpa", "disabled": "unfused", "auto": "auto"}
QUANTIZED = {"bnb": (4, 8), "hqq": (4, 8), "eetq": (8,)}
"""Method → bits of the frozen weights that it is known with."""
REFUSED = {
    "use_kt": "keeps experts in host memory and computes them there (KTransformers)",
    "use_galore": "keeps optimizer states of low-rank gradients (GaLore)",
    "use_apollo": "keeps optimizer states of low-rank gradients (APOLLO)",
    "use_badam": "trains some layers at a time (BAdam)",
    "mixture_of_depths": "lets tokens skip layers (mixture of depths)",
}
SECOND = {
    "model": "model_name_or_path",
    "micro_batch_size": "per_device_train_batch_size",
    "max_length": "cutoff_len",
}
"""Name in a v1 file → name in the others."""
MEGATRON = {
    "tensor_model_parallel_size": "plan.tp",
    "pipeline_model_parallel_size": "plan.pp",
    "expert_model_parallel_size": "plan.ep",
    "context_parallel_size": "plan.cp",
    "virtual_pipeline_model_parallel_size": "plan.vpp",
}


def detect(text: str) -> bool:
    """Whether a text is a LLaMA-Factory file or starts it."""
    if COMMAND.search(text):
        return True
    keys = top_level_keys(text)
    if "model_name_or_path" in keys:
        return bool(keys & SIGNS)
    return "model" in keys and len(keys & FIRST_SIGNS) >= 2


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file or a command; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s, started = _settings(text, launch, wanted)
    if launch.problems:
        return launch
    for new, name in SECOND.items():
        if new in s.values and name not in s.values:
            s.values[name], s.lines[name] = s.values.pop(new), s.lines.get(new, 0)
    first = _is_v1(s)
    if not first and not s.get("do_train") and "stage" not in s.values and "finetuning_type" not in s.values:
        launch.wrong("do_train", "is not set: the file trains nothing (it merges, serves or predicts)")
        return launch
    if not first and (s.get("export_dir") or s.get("do_predict")) and not s.get("do_train"):
        launch.wrong("do_train", "is not set: the file trains nothing (it merges, serves or predicts)")
        return launch
    _refused(launch, s)
    config = s.get("deepspeed", "dist_config.config_file")
    sharded = bool(s.get("fsdp")) or started.zero == 3 or str(s.get("dist_config.name")).startswith(("fsdp", "hyper"))
    megatron = any(name in s.values for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size"))
    per_node = started.per_node or _ray(s)
    devices = tune.cluster(launch, wanted, per_node, several=sharded or bool(config) or megatron)
    stored = tune.base_model(launch, s, wanted, "model_name_or_path")
    tune.sequence_length(launch, s, wanted, "cutoff_len", usual=(2048, "no cutoff_len: LLaMA-Factory's default"))
    _precision(launch, s, first=first)
    _method(launch, s, stored)
    if launch.fields.get("training.phase") != "lora" or "lora" not in str(s.values.get("finetuning_type", "lora")):
        s.get("lora_rank", "lora_target", "lora_dropout", "use_dora", "additional_target")  # of another method
    _framework(launch, s, started, sharded=sharded, config=config if isinstance(config, str) else None)
    inner = _megatron(launch, s) if megatron else _context(launch, s)
    if wanted.framework:
        launch.set("training.framework", wanted.framework, "--framework of windtunnel import")
    _optimizer(launch, s)
    _memory(launch, s, first=first)
    names = ("per_device_train_batch_size", "gradient_accumulation_steps")
    tune.batch(launch, s, wanted, devices, inner, names, 1 if first else 8)
    if not s.get("packing") and not s.get("neat_packing"):
        s.leave(tune.UNPACKED, "cutoff_len")
    if s.get("stage") == "kto":
        tune.objective(launch, "kto", "stage", s.line("stage"))
    if s.get("stage") == "dpo":
        loss = str(s.get("pref_loss"))
        tune.objective(launch, loss if loss in tune.PAIRED else "dpo", "stage", s.line("stage"))
    s.rest()
    return launch


def _settings(text: str, launch: Launch, wanted: Wanted) -> tuple[Settings, accelerate.Started]:
    """Settings of the file, or of the command with those of the file that it names."""
    if {"model_name_or_path", "model"} & top_level_keys(text):
        return Settings(launch, *read_mapping(text, launch)), accelerate.Started()
    script = read_script(text, wanted.env, file=launch.file)
    words = next(
        (command for command in script.commands if COMMAND.search(" ".join(word.text for word in command))), []
    )
    plain = [(word.text, word.line) for word in words]
    begin = next((i for i, (word, _) in enumerate(plain) if re.search(r"train(_bash)?(\.py)?$|launcher\.py$", word)), 0)
    started = accelerate.started(plain[: begin + 1], launch)
    values, lines, rest = tune.flags_of(plain[begin + 1 :])
    for name, line in rest:
        inner = text_beside(launch.file, name) if name.endswith((".yaml", ".yml", ".json")) else None
        if inner is None and name.endswith((".yaml", ".yml", ".json")):
            launch.wrong(name, "is not in this file's folder; import that file itself", line=line)
        elif inner is not None:
            inside, _ = read_mapping(inner, launch)
            values = {**inside, **values}
    if not values and not launch.problems:
        launch.wrong("", "names no file of settings and gives none")
    return Settings(launch, values, lines), started


def _is_v1(s: Settings) -> bool:
    """Whether the file is one of the second generation, whose tables name plug-ins."""
    return any(name.split(".")[0] in FIRST_SIGNS - {"dataset"} for name in s.values)


def _refused(launch: Launch, s: Settings) -> None:
    """Stages and methods that one training step does not hold."""
    stage = s.get("stage")
    if stage not in (None, "sft", "pt", "dpo", "kto"):
        rule = "must be sft, pt, dpo or kto: one training step has no rollouts or scores"
        tune.refuse(launch, s, "stage", rule)
    if s.get("finetuning_type") == "freeze":
        rule = "must be lora, oft or full: a scenario trains all weights or adapters"
        tune.refuse(launch, s, "finetuning_type", rule)
    if s.get("peft_config.name") in ("freeze", "oft"):
        rule = "must be lora: a scenario trains all weights or low-rank adapters"
        tune.refuse(launch, s, "peft_config.name", rule)
    for name, why in REFUSED.items():
        if s.get(name):
            tune.refuse(launch, s, name, why)


def _ray(s: Settings) -> tuple[int, str, int | None] | None:
    """Devices that Ray starts workers on."""
    workers = s.number("ray_num_workers")
    return (workers, *s.said("ray_num_workers")) if workers else None


def _precision(launch: Launch, s: Settings, *, first: bool) -> None:
    """bf16, fp16 or full precision."""
    kind = next((kind for kind in ("bf16", "fp16") if s.get(kind) is True), None)
    if s.get("pure_bf16"):
        s.put("training.precision", "bf16", "pure_bf16")
    elif kind is not None:
        s.put("training.precision", kind, kind)
    elif first:
        launch.assume("training.precision", "bf16", "the default of v1 files")
    else:
        launch.set("training.precision", "fp32", "neither bf16 nor fp16")
    if s.get("fp8"):
        s.put("training.precision", "fp8", "fp8")


def _method(launch: Launch, s: Settings, stored: str | None) -> None:
    """All weights, or adapters on frozen ones."""
    kind = s.get("finetuning_type") or s.get("peft_config.name") or ("full" if _is_v1(s) else "lora")
    if kind == "oft":
        _rotations(launch, s, stored)
        return
    if kind != "lora":
        launch.set("training.phase", "sft", f"finetuning_type {kind}")
        return
    launch.set("training.phase", "lora", *s.said("finetuning_type", "peft_config.name"))
    bits = s.number("quantization_bit", "quant_config.quantization_bit")
    method = str(s.get("quantization_method", "quant_config.name") or "bnb").split("_")[0]
    base = stored
    if bits is not None:
        base = _base(method if method != "auto" else "bnb", bits)
        if base is None:
            rule = "must be 4 or 8 bits (8 alone with eetq): no other format of frozen weights is known here"
            tune.refuse(launch, s, s.said("quantization_bit", "quant_config.quantization_bit")[0], rule)
        elif base == "nf4" and s.get("double_quantization") is False:
            base = "nf4_single"
    tune.adapters(launch, s, ADAPTERS, base)


def _base(method: str, bits: float) -> str | None:
    """The format of frozen weights that a method keeps in so many bits."""
    return in_field(format_of_bits(method, bits), BASE) if bits in QUANTIZED.get(method, ()) else None


def _rotations(launch: Launch, s: Settings, stored: str | None) -> None:
    """Orthogonal adapters: blocks that rotate inputs, next to weights in 16 bits or in the checkpoint's format."""
    s.put("training.phase", "lora", "finetuning_type")
    size = s.number("oft_block_size", least=2)
    launch.set("training.lora.rotation_block", size or 32, *s.said("oft_block_size"))
    targets, _ = tune.target_products(launch, s, s.get("oft_target") or "all", ("oft_target",))
    s.put("training.lora.targets", targets or tune.every_product(launch), "oft_target")
    bits = s.number("quantization_bit")
    base = _base("bnb", bits) if bits is not None else stored
    if base is not None:
        launch.set("training.lora.quantized_base", base, "format of the frozen weights")


def _framework(launch: Launch, s: Settings, started: accelerate.Started, *, sharded: bool, config: str | None) -> None:
    """Where weights, gradients and states are, and in which formats.

    Without `pure_bf16` weights that are trained are fp32 and cast for every pass.
    """
    whole = launch.fields.get("training.phase") == "sft" and not s.get("pure_bf16") and not _is_v1(s)
    said = "trained weights are fp32 without pure_bf16" if whole else "the format of the file"
    launch.set("training.framework", "ddp" if whole else "transformers", said)
    if config:
        tune.deepspeed(launch, s, s.said("deepspeed", "dist_config.config_file")[0], config)
    elif sharded:
        launch.set("plan.zero", 3, "FSDP")
        if launch.fields.get("training.phase") == "sft":
            launch.set("training.framework", "fsdp1", "FSDP: weights are sharded in fp32 and gathered in 16 bits")
    elif started.zero is not None:
        launch.set("plan.zero", started.zero, started.said)
    else:
        launch.set("plan.zero", 0, "neither fsdp nor deepspeed")
    if started.offload:
        for part in ("params", "optimizer"):
            launch.set(f"plan.offload.{part}", 1.0, started.said)
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")


def _megatron(launch: Launch, s: Settings) -> int:
    """Axes of the Megatron-Core back end; returns tp · pp · cp."""
    for name, field in MEGATRON.items():
        value = s.number(name)
        if value is not None and value > 1:
            s.put(field, value, name)
    launch.set("training.framework", "megatron_core", "parallel axes of Megatron-Core are given")
    launch.set("plan.zero", 1 if s.get("use_distributed_optimizer") else 0, *s.said("use_distributed_optimizer"))
    sequence = s.switch("sequence_parallel")
    if sequence is not None and launch.fields.get("plan.tp", 1) > 1:
        s.put("plan.sp", sequence, "sequence_parallel")
    if s.get("recompute_granularity") == "full":
        s.put("plan.recompute.policy", "full", "recompute_granularity")
    elif s.get("recompute_granularity") == "selective":
        s.put("plan.recompute.policy", "selective", "recompute_granularity")
        s.put("plan.recompute.modules", ["core_attn"], "recompute_granularity")
    else:
        launch.set("plan.recompute.policy", "none", "no recompute_granularity")
    inner = 1
    for axis in ("tp", "pp", "cp"):
        inner *= launch.fields.get(f"plan.{axis}", 1)
    return inner


def _context(launch: Launch, s: Settings) -> int:
    """Context axis of v1 files; returns its size."""
    size = s.number("dist_config.cp_size", "cp_size") or 1
    if size > 1:
        s.put("plan.cp", size, "dist_config.cp_size", "cp_size")
        if str(s.get("dist_config.cp_mode")) in ("ulysses", "None"):
            s.put("plan.cp_kind", "all_to_all", "dist_config.cp_mode", "dist_config.cp_size")
    s.take("plan.ep", "dist_config.ep_size")
    return size


def _optimizer(launch: Launch, s: Settings) -> None:
    """The optimizer, by its name or by a switch."""
    tune.optimizer(launch, s, "optim")
    if s.get("use_muon") or s.get("optim_config.name") == "muon":
        s.put("training.optimizer", "muon", "use_muon", "optim_config.name")
    if s.get("use_adam_mini"):
        s.leave("no such optimizer here: counted as Adam, with a second moment for each weight", "use_adam_mini")


def _memory(launch: Launch, s: Settings, *, first: bool) -> None:
    """Recomputation, attention and loss kernels."""
    kernel = s.get("flash_attn")
    if isinstance(kernel, str) and kernel in KERNELS:
        s.put("training.attention", KERNELS[kernel], "flash_attn")
    elif kernel is not None:
        s.leave("no such attention kernel here: counted as PyTorch's", "flash_attn")
    if s.get("enable_liger_kernel") or "liger" in str(s.get("kernel_config.name")):
        s.put("training.fused_cross_entropy", True, "enable_liger_kernel", "kernel_config.name")
    if "plan.recompute.policy" not in launch.fields:
        if s.get("disable_gradient_checkpointing") is True or s.get("gradient_checkpointing") is False:
            launch.set("plan.recompute.policy", "none", *s.said("disable_gradient_checkpointing"))
        else:
            launch.set("plan.recompute.policy", "full", "checkpointing is on unless it is disabled")
    if s.get("use_unsloth_gc"):
        tune.offloading_checkpoints(launch, s, "use_unsloth_gc")
    if s.get("use_unsloth"):
        s.leave("kernels of Unsloth: counted as PyTorch's", "use_unsloth")
