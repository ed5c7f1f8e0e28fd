"""ms-swift and Megatron-SWIFT as a scenario: `swift sft`, `swift pt`, `swift rlhf`, `megatron sft` and kin.

Names and defaults: modelscope/ms-swift `swift/arguments`, `docs/source_en/Instruction/Command-line-parameters.md` and
`docs/source_en/Megatron-SWIFT/Command-line-parameters.md` (2.x to 4.x). Settings without a
field: `flags/ms_swift.yaml`.
"""

from __future__ import annotations

import math
import re

from windtunnel.importers import accelerate, launched
from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.named_files import text_beside
from windtunnel.importers.settings import Settings
from windtunnel.importers.yaml_settings import read_mapping
from windtunnel.stacks.weight_formats import BASE, format_of_bits, in_field

FORMAT = "ms_swift"
TITLE = "ms-swift settings"
OVER = ("trl", "hf_trainer", "deepspeed_chat", "megatron", "llama_factory", "megatron_bridge")
PROGRAM = re.compile(
    r"(?:^|[/\s])(swift|megatron)\s+(sft|pt|rlhf)\b|\bswift/cli/(?:_megatron/)?(sft|pt|rlhf)\.py\b"
    r"|-m swift\.cli\.(?:_megatron\.)?(sft|pt|rlhf)\b|\bllm_(sft|dpo|rlhf|pt|orpo|simpo)\.py\b"
)
ADAPTERS = tune.AdapterNames(
    rank=("lora_rank",),
    targets=("target_modules", "lora_target_modules"),
    dropout=("lora_dropout", "lora_dropout_p"),
    dora=("use_dora",),
    trained=("modules_to_save",),
    parameters=("target_parameters",),
    usual_dropout=0.05,
    usual_said="ms-swift's default",
)
TYPES = ("train_type", "tuner_type", "sft_type")
ROLLOUTS = frozenset({"grpo", "ppo", "gkd", "rm", "gspo"})
KERNELS = {
    "flash_attn": "flash2",
    "flash_attention_2": "flash2",
    "flash_attention_3": "flash3",
    "sdpa": "sdpa",
    "eager": "unfused",
    "flash": "flash2",
    "fused": "cudnn",
    "unfused": "unfused",
}
AXES = {
    "tensor_model_parallel_size": "plan.tp",
    "pipeline_model_parallel_size": "plan.pp",
    "context_parallel_size": "plan.cp",
    "expert_model_parallel_size": "plan.ep",
    "expert_tensor_parallel_size": "plan.etp",
    "virtual_pipeline_model_parallel_size": "plan.vpp",
}


def detect(text: str) -> bool:
    """Whether a text starts ms-swift or Megatron-SWIFT."""
    return PROGRAM.search(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        launch.wrong("", "starts ms-swift nowhere that can be read")
        return launch
    config = found.values.pop("config", None) or (found.rest[0][0] if found.rest else None)
    if isinstance(config, str) and config.endswith((".yaml", ".yml", ".json")):
        inner = text_beside(file, config)
        if inner is None:
            launch.wrong(config, "is not in this file's folder; import that file with the command", line=found.line)
        else:
            inside, _ = read_mapping(inner, launch)
            found.values = {**inside, **found.values}
    s = found.settings(launch)
    started = launched.started_by(found, launch, wanted)
    mcore = "megatron" in " ".join([*(word for word, _ in found.launcher), found.program])
    devices = launched.cluster(launch, wanted, found, started)
    stored = tune.base_model(launch, s, wanted, "model", "model_id_or_path", "model_type", "load", "mcore_model")
    _length(launch, s, wanted)
    dtype = s.dtype("torch_dtype", "dtype")
    half = next((kind for kind in ("bf16", "fp16") if s.get(kind) is True), None)
    launch.set("training.precision", half or dtype or "bf16", *s.said("bf16" if half else "torch_dtype"))
    _method(launch, s, stored, mcore=mcore)
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    kernel = s.get("attn_impl", "attention_backend")
    if kernel in KERNELS:
        s.put("training.attention", KERNELS[kernel], "attn_impl", "attention_backend")
    if mcore:
        _megatron(launch, s, wanted, found)
    else:
        _transformers(launch, s, wanted, started, devices)
    _objective(launch, s, wanted, found)
    if not s.get("packing"):
        s.leave(tune.UNPACKED, "max_length")
    s.rest()
    return launch


def _length(launch: Launch, s: Settings, wanted: Wanted) -> None:
    """Tokens of a row; the tool has no limit of its own."""
    if s.get("max_length") is None and isinstance(s.get("seq_length"), int):
        s.values["max_length"] = s.get("seq_length")
    tune.given_length(launch, s, wanted, "max_length")


def _method(launch: Launch, s: Settings, stored: str | None, *, mcore: bool) -> None:
    """Adapters (the default of `swift sft`), or all weights (that of `megatron sft`)."""
    kind = str(s.get(*TYPES) or ("full" if mcore else "lora"))
    said = s.said(*TYPES)
    if kind == "full":
        launch.set("training.phase", "sft", *said)
        s.get("lora_rank", "lora_alpha", "lora_dropout", "target_modules", "use_dora")
    elif kind == "lora":
        launch.set("training.phase", "lora", *said)
        bits, method = s.get("quant_bits", "quantization_bit"), s.get("quant_method")
        base = in_field(format_of_bits(str(method or "bnb"), bits), BASE) if bits else stored
        tune.adapters(launch, s, ADAPTERS, base)
    else:
        launch.leave(said[0], kind, said[1], "no such adapters here", "adapter")


def _transformers(
    launch: Launch, s: Settings, wanted: Wanted, started: accelerate.Started, devices: int | None
) -> None:
    """The back end on Transformers' trainer: DeepSpeed or FSDP by name, accumulation to 16 sequences by default."""
    config = s.get("deepspeed")
    framework = "transformers"
    launch.set("plan.zero", started.zero or 0, started.said if started.zero else "neither deepspeed nor fsdp")
    if isinstance(config, str):
        framework = "deepspeed"
        tune.deepspeed(launch, s, "deepspeed", config)
    elif s.get("fsdp") not in (None, ""):
        s.put("plan.zero", 3, "fsdp")
        framework = "fsdp1"
    launch.set("training.framework", wanted.framework or framework, "the back end")
    inner = s.number("sequence_parallel_size") or 1
    if inner > 1:
        s.put("plan.cp", inner, "sequence_parallel_size")
        s.put("plan.cp_kind", "all_to_all", "sequence_parallel_size")
    off = s.get("gradient_checkpointing") is False
    launch.set("plan.recompute.policy", "none" if off else "full", *s.said("gradient_checkpointing"))
    if s.get("use_liger_kernel") is True:
        s.put("training.fused_cross_entropy", True, "use_liger_kernel")
    tune.optimizer(launch, s, "optim")
    micro = s.get("per_device_train_batch_size", "batch_size") or 1
    s.values.setdefault("per_device_train_batch_size", micro)
    if s.get("gradient_accumulation_steps") is None and devices and isinstance(micro, int):
        steps = max(1, math.ceil(16 / micro / devices))
        s.values["gradient_accumulation_steps"] = steps
        launch.assumed.append(("(accumulation)", str(steps), "no gradient_accumulation_steps: to 16 sequences a step"))
    names = ("per_device_train_batch_size", "gradient_accumulation_steps")
    tune.batch(launch, s, wanted, devices, inner, names, 1)


def _megatron(launch: Launch, s: Settings, wanted: Wanted, found: launched.Launched) -> None:
    """The back end on Megatron-Core."""
    launch.set("training.framework", wanted.framework or "megatron_core", "megatron")
    for name, field in AXES.items():
        value = s.number(name)
        if value is not None and value > 1:
            s.put(field, value, name)
    if launch.fields.get("plan.tp", 1) > 1:
        launch.set("plan.sp", s.get("sequence_parallel") is True, *s.said("sequence_parallel"))
    s.get("sequence_parallel")
    sharded = s.get("use_distributed_optimizer") is not False
    launch.set("plan.zero", 1 if sharded else 0, *s.said("use_distributed_optimizer"))
    how = s.get("recompute_granularity")
    policy = {"full": "full", "none": "none", None: "selective", "selective": "selective"}.get(how, "selective")
    launch.set("plan.recompute.policy", policy, *s.said("recompute_granularity"))
    if policy == "selective":
        launch.set("plan.recompute.modules", ["core_attn"], *s.said("recompute_granularity"))
    s.get("recompute_method", "recompute_num_layers", "recompute_modules", "finetune", "moe_grouped_gemm")
    if s.get("cross_entropy_loss_fusion") is True:
        s.put("training.fused_cross_entropy", True, "cross_entropy_loss_fusion")
    if s.get("optimizer_cpu_offload") is True:
        s.put("plan.offload.optimizer", 1.0, "optimizer_cpu_offload")
    tune.whole_batch(launch, s, wanted, ("micro_batch_size",), ("global_batch_size",), (1, 16))


def _objective(launch: Launch, s: Settings, wanted: Wanted, found: launched.Launched) -> None:
    """What `rlhf` trains."""
    old = re.search(r"llm_(dpo|orpo|simpo)\.py", found.program)
    kind = str(s.get("rlhf_type") or (old[1] if old else ""))
    if found.program.endswith(("rlhf", "rlhf.py")) and not kind:
        kind = "dpo"
    said = s.said("rlhf_type")
    if kind in ROLLOUTS:
        samples = s.get("num_generations")
        what = f"rollouts of {samples or 8} samples beside the step" if kind in ("grpo", "gspo") else "further models"
        launched.post_training(launch, wanted, kind.upper(), what, said)
    elif kind:
        tune.objective(launch, kind, said[0], said[1])
