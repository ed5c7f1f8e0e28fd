"""A YAML file of llm-foundry or Composer as a scenario.

Names and defaults: mosaicml/llm-foundry `scripts/train/yamls/` (mpt-7b.yaml at commit 15fb4ffaa6fb) and
`llmfoundry/models/mpt/configuration_mpt.py`. The file does not say on how many devices it runs.
"""

from __future__ import annotations

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings
from windtunnel.importers.training_tables import dimensions, names_of, settings_of

FORMAT = "llm_foundry"
TITLE = "llm-foundry configuration"
OVER = ("trl", "axolotl", "megatron_bridge", "llama_factory", "torchtune")
OWN = frozenset({"device_train_microbatch_size", "global_train_batch_size", "device_train_batch_size", "train_loader"})
DIMENSIONS = {
    "hidden_size": "model.d_model",
    "num_hidden_layers": "model.n_layers",
    "num_attention_heads": "model.n_heads",
    "vocab_size": "model.vocab_size",
}
PRECISIONS = {"amp_bf16": "bf16", "amp_fp16": "fp16", "fp32": "fp32", "amp_fp8": "fp8", "bf16": "bf16"}
ZERO = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3}
ADAPTERS = tune.AdapterNames(
    rank=("model.peft_config.r",),
    targets=("model.peft_config.target_modules",),
    dropout=("model.peft_config.lora_dropout",),
    dora=("model.peft_config.use_dora",),
    usual_targets=("q", "v"),
    usual_said="PEFT's default",
)
FSDP = ("fsdp_config.", "parallelism_config.fsdp.")


def detect(text: str) -> bool:
    """Whether a text is a file of llm-foundry."""
    return "global_train_batch_size" in text and len(names_of(text) & OWN) >= 2


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    for name in [name for name in s.values if name.startswith(("parameters.", "variables."))]:
        plain = name.split(".", 1)[1]
        s.values.setdefault(plain, s.values.pop(name))
        s.lines.setdefault(plain, s.lines.get(name, 0))
    devices = launch.cluster(wanted, None, None)
    _model(launch, s, wanted)
    tune.given_length(launch, s, wanted, "max_seq_len", "model.max_seq_len")
    precision = s.choice(PRECISIONS, "precision")
    launch.set("training.precision", precision or "bf16", *s.said("precision"))
    shard = next((name for name in s.values if name.endswith("fsdp_config.sharding_strategy")), None)
    fsdp = any(name.startswith(FSDP) for name in s.values) or any(name == "fsdp_config" for name in s.values)
    stage = ZERO.get(str(s.get(shard or "fsdp_config.sharding_strategy") or "FULL_SHARD"), 3) if fsdp else 0
    launch.set("plan.zero", stage, *s.said(shard or "fsdp_config.sharding_strategy"))
    lora = any(name.startswith("model.peft_config.") for name in s.values)
    launch.set("training.phase", "lora" if lora else "pretrain", "model.peft_config" if lora else "no peft_config")
    if lora:
        tune.adapters(launch, s, ADAPTERS, None)
    elif str(s.get("train_loader.name")) == "finetuning":
        s.put("training.phase", "sft", "train_loader.name")
    mixed = str(s.get(*(prefix + "mixed_precision" for prefix in FSDP)) or "DEFAULT")
    framework = "fsdp1" if fsdp and not lora else "ddp" if not lora else "transformers"
    launch.set("training.framework", wanted.framework or framework, f"FSDP, mixed precision {mixed}")
    again = s.get(*(prefix + "activation_checkpointing" for prefix in FSDP)) is True
    launch.set("plan.recompute.policy", "full" if again else "none", *s.said(FSDP[0] + "activation_checkpointing"))
    if s.get(*(prefix + "activation_cpu_offload" for prefix in FSDP)) is True:
        s.put("plan.offload.activations", 1.0, FSDP[0] + "activation_cpu_offload")
    launch.set("plan.dp", "auto", "devices")
    if str(s.get("model.attn_config.attn_impl")) == "flash" or s.get("model.use_flash_attention_2") is True:
        launch.set(
            "training.attention", "flash2", *s.said("model.attn_config.attn_impl", "model.use_flash_attention_2")
        )
    _batch(launch, s, wanted, devices)
    s.rest()
    return launch


_MOST_RATIO = 1_000


def _model(launch: Launch, s: Settings, wanted: Wanted) -> None:
    if wanted.model is not None or s.get("model.pretrained_model_name_or_path"):
        tune.base_model(launch, s, wanted, "model.pretrained_model_name_or_path")
        s.get(*DIMENSIONS.values())
        return
    hidden = s.number("model.d_model") or 0
    ratio = s.get("model.expansion_ratio") or 4
    if not isinstance(ratio, int | float) or not 0 < ratio <= _MOST_RATIO:
        rule = f"must be a number above 0 and at most {_MOST_RATIO}"
        launch.wrong("model.expansion_ratio", rule, ratio, s.line("model.expansion_ratio"))
        ratio = 4
    gated = s.get("model.ffn_config.ffn_type") in ("mptglu", "mptgeglu")
    groups = s.number("model.attn_config.kv_n_heads")
    kind = str(s.get("model.attn_config.attn_type") or "")
    if kind == "multiquery_attention":
        groups = 1
    positions = (
        "alibi"
        if s.get("model.attn_config.alibi") is True
        else "rope"
        if s.get("model.attn_config.rope")
        else "learned"
    )
    width = s.number("model.ffn_config.ffn_hidden_size") or int(hidden * float(ratio))
    more = {
        "family": "dense",
        "intermediate_size": width,
        "gated_mlp": gated,
        "hidden_act": "silu" if gated else "gelu",
        "norm": "rmsnorm" if "rms" in str(s.get("model.norm_type") or "") else "layernorm",
        "position_embedding": positions,
        "tie_word_embeddings": s.get("model.tie_word_embeddings") is not False,
        "attention_bias": s.get("model.no_bias") is not True,
        "mlp_bias": s.get("model.no_bias") is not True,
        "max_position_embeddings": s.number("model.max_seq_len", "max_seq_len") or 2048,
        **({"num_key_value_heads": groups} if groups else {}),
    }
    dimensions(launch, s, DIMENSIONS, more)


def _batch(launch: Launch, s: Settings, wanted: Wanted, devices: int | None) -> None:
    """Sequences of a step, and those that a device takes at once; `auto` is the trainer's choice."""
    micro = s.get("device_train_microbatch_size")
    if wanted.mbs is None and (micro == "auto" or isinstance(micro, float)):
        launch.wrong("device_train_microbatch_size", "is left to the trainer; --mbs gives it", micro)
        s.values["device_train_microbatch_size"] = None
    batch = ("global_train_batch_size", "train_batch_size")
    tune.whole_batch(launch, s, wanted, ("device_train_microbatch_size",), batch, (1, 0))
    rows, each = launch.fields.get("training.global_batch"), launch.fields.get("plan.mbs")
    if devices and isinstance(rows, int) and isinstance(each, int) and rows % devices == 0 and rows // devices < each:
        launch.set("plan.mbs", rows // devices, f"global_train_batch_size / {devices} devices")
