"""An Axolotl YAML file as a scenario.

Names and defaults: axolotl-ai-cloud/axolotl `src/axolotl/utils/schemas/` (0.8 to 0.13). Settings without a field are
data, `flags/axolotl.yaml`. Passes under reinforcement learning (a reference model, rollouts) have no scenario and are
refused.
"""

from __future__ import annotations

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings
from windtunnel.importers.yaml_settings import read_mapping, top_level_keys

FORMAT = "axolotl"
TITLE = "Axolotl YAML"
SIGNS = frozenset(
    {"micro_batch_size", "sequence_len", "adapter", "datasets", "gradient_accumulation_steps", "pretraining_dataset"}
)
ADAPTERS = tune.AdapterNames(
    rank=("lora_r", "peft.r"),
    targets=("lora_target_modules", "peft.target_modules"),
    dropout=("lora_dropout",),
    dora=("peft_use_dora",),
    trained=("lora_modules_to_save",),
    parameters=("lora_target_parameters", "peft.target_parameters"),
    usual_said="Axolotl's default",
)
KERNELS = {
    "flash_attention_2": "flash2",
    "flash_attention_3": "flash3",
    "sdpa": "sdpa",
    "eager": "unfused",
    "flash_attention": "flash2",
    "kernels-community/flash-attn2": "flash2",
    "kernels-community/flash-attn3": "flash3",
    "kernels-community/vllm-flash-attn3": "flash3",
}
REFUSED = {
    "reward_model": "trains a reward model on pairs, which one training step does not hold",
    "process_reward_model": "trains a reward model on steps, which one training step does not hold",
    "lisa_n_layers": "trains some layers at a time; a scenario trains all weights or adapters",
    "ebft": "trains on rollouts, which one training step does not hold",
    "diffusion": "trains a diffusion objective, which one training step does not hold",
}


def detect(text: str) -> bool:
    """Whether a text is an Axolotl configuration."""
    keys = top_level_keys(text)
    return "base_model" in keys and bool(keys & SIGNS)


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = Settings(launch, *read_mapping(text, launch))
    if launch.problems:
        return launch
    for name, why in REFUSED.items():
        if s.get(name):
            tune.refuse(launch, s, name, why)
    _objective(launch, s)
    sizes = {name: s.number(name) or 1 for name in ("tensor_parallel_size", "context_parallel_size", "dp_shard_size")}
    sizes["expert_parallel_size"] = s.number("expert_parallel_size") or 1
    sharded = bool(s.get("fsdp", "fsdp_version")) or any(name.startswith("fsdp_config.") for name in s.values)
    several = sharded or bool(s.get("deepspeed")) or max(sizes.values()) > 1
    devices = tune.cluster(launch, wanted, None, several=several)
    stored = tune.base_model(launch, s, wanted, "base_model")
    tune.sequence_length(launch, s, wanted, "sequence_len", usual=(512, "no sequence_len: Axolotl's default"))
    _precision(launch, s)
    launch.set("training.framework", "transformers", "the format of the file")
    _method(launch, s, stored)
    _sharding(launch, s, sharded=sharded)
    inner = _axes(launch, s, sizes)
    if wanted.framework:
        launch.set("training.framework", wanted.framework, "--framework of windtunnel import")
    tune.optimizer(launch, s, "optimizer")
    _kernels(launch, s)
    _checkpoints(launch, s)
    _batch(launch, s, wanted, devices, inner)
    s.rest()
    return launch


def _objective(launch: Launch, s: Settings) -> None:
    """Refuse objectives beyond one model's forward and backward, and training a part of the weights."""
    kind = s.get("rl")
    if kind and str(kind) not in tune.PAIRED | tune.REFERENCED | {"kto"}:
        why = "trains with rollouts, which one training step does not hold (dpo, ipo, kto, orpo, simpo do)"
        tune.refuse(launch, s, "rl", why)
    parts = [str(part) for part in s.items("unfrozen_parameters") or []]
    whole = any("head" in part for part in parts) and any("language_model" in part for part in parts)
    if parts and not whole:
        why = "trains a part of the weights by name; a scenario trains all weights or adapters"
        tune.refuse(launch, s, "unfrozen_parameters", why)


def _precision(launch: Launch, s: Settings) -> None:
    """bf16, fp16 or full precision."""
    half = [kind for kind, names in (("bf16", ("bf16", "bfloat16")), ("fp16", ("fp16", "float16"))) if _on(s, *names)]
    if half:
        launch.set("training.precision", half[0], *s.said(half[0], "bfloat16", "float16"))
    elif s.get("bf16") is None and s.get("fp16") is None:
        launch.assume("training.precision", "bf16", "neither bf16 nor fp16 given: as Axolotl chooses on recent devices")
    else:
        launch.set("training.precision", "tf32" if s.get("tf32") else "fp32", "neither bf16 nor fp16")
    if s.get("fp8"):
        s.put("training.precision", "fp8", "fp8")


def _on(s: Settings, *names: str) -> bool:
    return s.get(*names) in (True, "auto", "full", "true")


def _method(launch: Launch, s: Settings, stored: str | None) -> None:
    """All weights, or adapters on frozen ones in 16, 8 or 4 bits."""
    kind = s.get("adapter")
    four, eight = s.switch("load_in_4bit"), s.switch("load_in_8bit")
    linear = s.switch("lora_target_linear")
    if kind in (None, "", False):
        launch.set("training.phase", "sft", "no adapter")
        if four or eight:
            tune.refuse(launch, s, "load_in_4bit", "needs an adapter: weights in few bits are not trained")
        return
    if kind not in ("lora", "qlora", "dora"):
        tune.refuse(launch, s, "adapter", "must be lora or qlora")
        return
    s.put("training.phase", "lora", "adapter")
    if s.get("gptq"):
        base: str | None = "int4"
    elif four or (kind == "qlora" and not eight):
        nested = s.get("bnb_config_kwargs.bnb_4bit_use_double_quant")
        base = "nf4_single" if nested is False else "nf4"
    else:
        base = "int8" if eight else stored
    if linear and s.get("lora_target_modules") in (None, []):
        s.put("training.lora.targets", tune.every_product(launch), "lora_target_linear")
        s.values["lora_target_modules"] = "all"
    tune.adapters(launch, s, ADAPTERS, base)
    if s.get("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel"):
        s.leave("fused kernels of adapters: counted operator by operator", "lora_mlp_kernel", "lora_qkv_kernel")


def _sharding(launch: Launch, s: Settings, *, sharded: bool) -> None:
    """FSDP, DeepSpeed, or replicas."""
    config = s.get("deepspeed")
    if isinstance(config, str) and config:
        tune.deepspeed(launch, s, "deepspeed", config)
        return
    launch.set("plan.zero", 3 if sharded else 0, "fsdp" if sharded else "neither fsdp nor deepspeed")
    if not sharded:
        return
    if launch.fields.get("training.phase") != "lora":
        launch.set("training.framework", "fsdp1", "fsdp: weights are sharded in fp32 and gathered in 16 bits")
    c = "fsdp_config."
    if s.get(c + "offload_params", c + "fsdp_offload_params"):
        for part in ("params", "optimizer"):
            s.put(f"plan.offload.{part}", 1.0, c + "offload_params", c + "fsdp_offload_params")
    again = s.get(c + "reshard_after_forward", c + "fsdp_reshard_after_forward")
    if isinstance(again, bool):
        s.put("plan.reshard_after_forward", again, c + "reshard_after_forward")
    if s.get(c + "activation_checkpointing", c + "fsdp_activation_checkpointing"):
        s.put("plan.recompute.policy", "full", c + "activation_checkpointing", c + "fsdp_activation_checkpointing")


def _axes(launch: Launch, s: Settings, sizes: dict[str, int]) -> int:
    """Tensor and context axes; returns their product."""
    launch.set("plan.dp", "auto", "devices / (tp · cp)")
    tp, cp = sizes["tensor_parallel_size"], sizes["context_parallel_size"]
    if tp > 1:
        s.put("plan.tp", tp, "tensor_parallel_size")
    if cp > 1:
        s.put("plan.cp", cp, "context_parallel_size")
    copies, shard = s.number("dp_replicate_size"), sizes["dp_shard_size"]
    if copies and copies > 1 and shard > 1:
        s.put("plan.shard_group", shard * cp, "dp_shard_size")
    if shard > 1 and launch.fields.get("plan.zero") == 0:
        s.put("plan.zero", 3, "dp_shard_size")
    s.take("plan.ep", "expert_parallel_size")
    return tp * cp


def _kernels(launch: Launch, s: Settings) -> None:
    """Attention, loss and compilation."""
    name = s.get("attn_implementation")
    if isinstance(name, str) and name in KERNELS:
        s.put("training.attention", KERNELS[name], "attn_implementation")
    elif name is not None:
        s.leave("no such attention kernel here: counted as PyTorch's", "attn_implementation")
    for setting, kernel in (("flash_attention", "flash2"), ("sdp_attention", "sdpa"), ("eager_attention", "unfused")):
        if s.get(setting) is True:
            s.put("training.attention", kernel, setting)
    fused = ("liger_fused_linear_cross_entropy", "cut_cross_entropy", "chunked_cross_entropy")
    plugins = " ".join(map(str, s.items("plugins") or []))
    if any(s.get(name) for name in fused) or "cut_cross_entropy" in plugins:
        s.put("training.fused_cross_entropy", True, *fused, "plugins")
    if s.get("torch_compile") is True:
        s.put("training.compile", True, "torch_compile")


def _checkpoints(launch: Launch, s: Settings) -> None:
    """Recomputation, and where the inputs of layers wait."""
    kind = s.get("gradient_checkpointing")
    if kind is True:
        s.put("plan.recompute.policy", "full", "gradient_checkpointing")
    elif isinstance(kind, str) and kind not in ("false", ""):
        tune.offloading_checkpoints(launch, s, "gradient_checkpointing")
    elif "plan.recompute.policy" not in launch.fields:
        launch.set("plan.recompute.policy", "none", "gradient_checkpointing is off")
    if s.get("activation_offloading"):
        tune.offloading_checkpoints(launch, s, "activation_offloading")
    reentrant = s.get("gradient_checkpointing_kwargs.use_reentrant")
    if reentrant is False and launch.fields["plan.recompute.policy"] == "full":
        s.put("plan.recompute.early_stop", True, "gradient_checkpointing_kwargs.use_reentrant")


def _batch(launch: Launch, s: Settings, wanted: Wanted, devices: int | None, inner: int) -> None:
    """Sequences of a device and accumulation steps; an old file gives the batch of a device in place of the latter."""
    micro, whole = s.get("micro_batch_size"), s.get("batch_size")
    if s.get("gradient_accumulation_steps") is None and isinstance(whole, int) and isinstance(micro, int) and micro:
        s.values["gradient_accumulation_steps"] = max(whole // micro, 1)
    tune.batch(launch, s, wanted, devices, inner, ("micro_batch_size", "gradient_accumulation_steps"), 1)
    if s.get("rl") == "kto":
        tune.single_answers(launch, "rl", s.line("rl"))
    if str(s.get("rl")) in tune.PAIRED | tune.REFERENCED:
        tune.pairs(launch, "rl", s.line("rl"), reference=str(s.get("rl")) in tune.REFERENCED)
    if not s.get("sample_packing") and not s.get("pad_to_sequence_len"):
        s.leave(tune.UNPACKED, "sequence_len")
