"""Framework, phase, kernels and switches of a row: the fields of `TrainingSpec` next to the precision."""

from __future__ import annotations

import re
from typing import Any

from windtunnel import catalog
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import LoraSpec, span_corruption_targets
from windtunnel.stacks.defaults import Setting, scenario_defaults
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.hardware import canonical_device
from windtunnel.validation.rows.parsing.loose_values import count, first, mapping, number, switch, unstated, words
from windtunnel.validation.rows.parsing.pattern_tables import default, matches, meaning, table


def framework(ctx: Context) -> str:
    """The nearest software of the catalogue."""
    for text in (ctx.framework, ctx.family):
        found = meaning("software", "framework", text)
        if found == "megatron_core" and not re.search(r"\d", text) and _before_flash_attention(ctx):
            why = "no release is stated; attention without a fused kernel dates it before FlashAttention"
            ctx.assume("training.framework", "megatron_2022", why)
            return "megatron_2022"
        if found == "generic" and (engine := _engine_of_settings(ctx) or _usual_engine(ctx)):
            return engine
        if found is not None:
            if matches(table("software")["vendor_containers"], text) and found in ("nemo", "rocm_megatron"):
                ctx.engine = str(found)
            return _port(ctx, str(found))
    if engine := _engine_of_settings(ctx) or _usual_engine(ctx):
        return engine
    ctx.assume("training.framework", "generic", f"{ctx.framework or 'no framework'!r} is not in the tables")
    return "generic"


def _engine_of_settings(ctx: Context) -> str | None:
    """The engine whose settings stand next to a row that names a bare library: NeMo's, AMD's or plain Megatron."""
    if not any(matches(table("software")["megatron_settings"], text.lower()) for text in ctx.names):
        return None
    device = words(first(ctx.hardware, "device", "device_canonical"))
    engine = "rocm_megatron" if re.search(r"\bmi\d|amd|instinct", device) else "megatron_core"
    engine = "nemo" if re.search(r"nvidia|\bg?[abh]\d{2,3}|\bl\d{1,2}s?\b", device) else engine
    ctx.assume("training.framework", engine, "settings of Megatron's libraries stand next to the row")
    ctx.engine = engine
    return engine


_PORTS = {
    "AMD": dict.fromkeys(("megatron_core", "megatron_bridge", "nemo"), "rocm_megatron"),
    "Intel": dict.fromkeys(("megatron_core", "megatron_deepspeed", "deepspeed", "generic"), "habana_megatron"),
}
"""Vendor of the devices → framework → the vendor's port of it, which is what runs there."""
_SUBMITTED = {"NVIDIA": "nemo", "AMD": "rocm_megatron", "Intel": "habana_megatron"}
"""Vendor of the devices → the engine in whose containers submissions to MLPerf train language models, also where the
submitter names the container's parts alone (mlcommons/training_results_v3.0 to v5.0, implementations by submitter)."""


def is_submission(ctx: Context) -> bool:
    """Whether a row is a submission to the MLPerf benchmark."""
    return bool(re.search(r"mlperf|mlcommons", ctx.family))


def _vendor(ctx: Context) -> str:
    """Who makes the devices; empty where they are not in the catalogue."""
    name = canonical_device(ctx.hardware.get("device"), ctx.hardware.get("device_canonical"))
    return catalog.device(name).vendor if name else ""


def _port(ctx: Context, found: str) -> str:
    """A framework, or its port to the vendor of the devices."""
    vendor = _vendor(ctx)
    port = _PORTS.get(vendor, {}).get(found, found)
    if port != found:
        ctx.assume("training.framework", port, f"on devices of {vendor}, {found} is its own port")
    return port


def _usual_engine(ctx: Context) -> str | None:
    """The engine behind words that name none (PyTorch, a container): the submission's, or the vendor's own."""
    vendor = _vendor(ctx)
    engine = _SUBMITTED.get(vendor) if is_submission(ctx) else _PORTS.get(vendor, {}).get("generic")
    if engine is not None:
        named = ctx.framework or "no framework"
        why = f"{named!r} names no engine; language models on {vendor} devices train in the vendor's"
        ctx.assume("training.framework", engine, why)
        ctx.engine = engine
    return engine


def _before_flash_attention(ctx: Context) -> bool:
    """Whether the words for attention name kernels of the time before fused ones."""
    return bool(meaning("software", "attention", ctx.text("attention")) == "unfused")


def read_software(ctx: Context, model: ModelSpec, device: str, tp: int, chosen: str) -> dict[str, Any]:
    """Fields of `TrainingSpec` that name software and kernels."""
    fields: dict[str, Any] = {"framework": chosen}
    if is_submission(ctx):
        why = "a submission switches on what its engine can do, whatever its container: the newest defaults"
        ctx.assume("training.framework_version", "newest", why)
    elif version := _release(ctx, device):
        fields["framework_version"] = version
    walked = _walk(ctx)
    fields |= _phase(ctx, chosen, walked)
    fields |= _kernels(ctx, chosen, model, device)
    compiled = switch(ctx.fields.get("compile"))
    if compiled is not None:
        fields["compile"] = compiled
    elif matches(table("software")["fused_kernels"], ctx.text("attention")):
        fields["compile"] = True
        ctx.assume("training.compile", True, "element-wise kernels are fused by hand; counted like compiled ones")
    fields |= {k: walked[k] for k in ("fused_cross_entropy", "optimizer_in_backward", "optimizer") if k in walked}
    fused = switch(first(ctx.extra, "ce_fusion", "cross_entropy_fusion", "fused_ce", "cross_entropy_loss_fusion"))
    if fused is not None:
        fields["fused_cross_entropy"] = fused
    elif rule := default("fused_cross_entropy", ctx, device=device):
        fields["fused_cross_entropy"] = bool(rule[0])
        ctx.assume("training.fused_cross_entropy", *rule)
    if model.family == "encoder_decoder" and (targets := _target_length(ctx)):
        fields["decoder_seq_len"] = targets
    if rule := default("padded_vocab", ctx, tp=tp):
        fields["padded_vocab"] = bool(rule[0])
        ctx.assume("training.padded_vocab", *rule)
    facts = {"device": device, "precision": words(ctx.fields.get("precision")), "phase": fields["phase"]}
    if rule := default("expandable_segments", ctx, **facts):
        fields["expandable_segments"] = bool(rule[0])
        ctx.assume("training.expandable_segments", *rule)
    if rule := default("fsdp_root_group", ctx, **facts):
        fields["fsdp_root_group"] = bool(rule[0])
        ctx.assume("training.fsdp_root_group", *rule)
    if model.num_experts:
        fields |= _mixture(ctx)
    graphs = _cuda_graphs(ctx)
    if graphs is not None:
        fields["cuda_graphs"] = graphs
    return fields


def _release(ctx: Context, device: str) -> str | None:
    """The release of the software: of several containers the newest, and none that is older than its device."""
    containers = re.findall(r"\b(2\d\.(?:0[1-9]|1[0-2])(?:\.\d+)?)\b", ctx.framework)
    first = next((r["release"] for r in table("software")["first_container"] if matches(r["device"], device)), "")
    if containers and max(containers) >= first:
        return str(max(containers))
    if containers or ctx.engine:
        return None
    version = re.search(r"\b(v?\d+\.\d+(?:\.\d+)?|20\d\d)\b", ctx.framework)
    return version.group(1) if version else None


def _target_length(ctx: Context) -> int | None:
    """Tokens of the decoder: stated, or the targets of span corruption, T5's pre-training task in every framework."""
    stated = count(first(ctx.extra, "decoder_seq_len", "decoder_seq_length", "seq_length_dec", "target_length"))
    if stated:
        return stated
    inputs = count(ctx.fields.get("seq_len"))
    if not inputs or "fine" in ctx.text("phase"):
        return None
    targets = span_corruption_targets(inputs)
    why = f"not stated; targets of span corruption at {inputs} inputs, in blocks of 128"
    ctx.assume("training.decoder_seq_len", targets, why)
    return targets


def _walk(ctx: Context) -> dict[str, Any]:
    """Switches that follow from the place of a row in a cumulative tuning table."""
    step = words(first(ctx.extra, "cumulative_step", "ablation_step", "variant"))
    if not step:
        return {}
    gathered: dict[str, Any] = {}
    for pattern, adds in table("software")["walk"]:
        gathered |= adds
        if matches(pattern, step):
            return gathered
    return {}


def unpacked_length(ctx: Context) -> float | None:
    """Mean document length when the row says that sequences were padded and not packed."""
    text = f"{words(ctx.extra.get('cumulative_step'))} {words(ctx.extra.get('packing'))}"
    if not re.search(r"unpacked|no packing|without packing", text):
        return None
    value, why = default("mean_document_length", ctx) or (600, "document lengths not stated")
    ctx.assume("training.seq_len", value, f"unpacked documents; {why}")
    return float(value)


def _phase(ctx: Context, chosen: str, walked: dict[str, Any]) -> dict[str, Any]:
    text = words(ctx.fields.get("phase"))
    phase = walked.get("phase") or meaning("software", "phase", text) or "pretrain"
    fields: dict[str, Any] = {"phase": phase}
    if phase == "pretrain":
        return fields
    if "cumulative_step" not in ctx.extra or walked.get("packed"):
        stated = number(first(ctx.extra, "mean_document_length", "mean_length", "avg_seq_len"))
        if stated:
            fields["mean_document_length"] = stated
        elif (rule := default("mean_document_length", ctx)) and rule[0]:
            fields["mean_document_length"] = float(rule[0])
            ctx.assume("training.mean_document_length", *rule)
    if phase == "lora":
        stated_lora = mapping(ctx.extra.get("lora"))
        rank = number(first(ctx.extra, "lora_rank", "lora_dim", "rank") or stated_lora.get("rank"))
        rule = default("lora", ctx)
        value = dict(rule[0]) if rule else {}
        if rank:
            value = {**_usual_adapters(chosen), **value, "rank": int(rank)}
        else:
            ctx.assume("training.lora", *(rule or ("as the framework", "adapter rank and targets not stated")))
        if walked.get("quantized_base") or "qlora" in text:
            value = {**_usual_adapters(chosen), **value, "quantized_base": True}
        if value:
            fields["lora"] = LoraSpec.model_validate(value)
    return fields


def _usual_adapters(framework: str) -> dict[str, Any]:
    """Rank and targets of the framework's own configuration; a row that states one leaves the others to it."""
    found = scenario_defaults("training", framework, "", Setting(phase="lora")).get("lora")
    return dict(found.value) if found else {}


def frozen_weights(ctx: Context, training: dict[str, Any]) -> dict[str, Any]:
    """The workload with its frozen weights in the format that the row's family documents for what it multiplies."""
    adapters: LoraSpec | None = training.get("lora")
    facts = {"engine": training.get("framework", ""), "trained": training.get("precision", "")}
    if adapters is None or adapters.base_format is not None or (rule := default("frozen_format", ctx, **facts)) is None:
        return training
    ctx.assume("training.lora.quantized_base", *rule)
    return training | {"lora": adapters.model_copy(update={"quantized_base": rule[0]})}


def _kernels(ctx: Context, chosen: str, model: ModelSpec, device: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    text = ctx.text("attention")
    kernel = None if unstated(text) and "flash" not in text else meaning("software", "attention", text)
    if kernel is None and not text and (rule := default("attention", ctx)):
        kernel = rule[0]
        ctx.assume("training.attention", *rule)
    if kernel == "cudnn" and device.startswith(("a", "v", "rtx", "l4", "t4", "mi")):
        kernel = "flash2"
    if device.startswith("tpu") or (model.family == "vit" and kernel is None):
        kernel = "auto"
    if kernel is not None:
        fields["attention"] = kernel
    stated = ctx.text("optimizer")
    optimizer = meaning("software", "optimizer", stated) if stated else None
    if optimizer is None and (rule := default("optimizer", ctx)):
        optimizer = rule[0]
        ctx.assume("training.optimizer", *rule)
    if optimizer is not None:
        fields["optimizer"] = optimizer
    return fields


def _mixture(ctx: Context) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    stated = words(
        first(ctx.extra, "moe_flex_dispatcher_backend", "moe_token_dispatcher_type", "dispatcher", "moe_dispatcher")
    )
    chosen = meaning("software", "dispatcher", stated) if stated else _dispatcher_beside_overlap(ctx)
    if chosen is not None:
        fields["moe_dispatcher"] = chosen
    fused = switch(first(ctx.extra, "moe_permute_fusion", "permute_fusion", "fused_permute"))
    if fused is not None:
        fields["fused_permute"] = fused
    imbalance = number(first(ctx.extra, "expert_imbalance", "load_imbalance"))
    if imbalance and imbalance >= 1:
        fields["expert_load"] = {"imbalance": imbalance}
    return fields


def _dispatcher_beside_overlap(ctx: Context) -> str | None:
    """The dispatcher that a row names among what overlaps (`deepep: true`, "DeepEP, 1F1B with A2A overlap")."""
    raw = ctx.fields.get("overlap")
    if isinstance(raw, dict):
        on = [words(key) for key, value in raw.items() if switch(value) is not False]
    else:
        on = [words(raw)]
    named = [found for text in on if (found := meaning("software", "dispatcher", text)) in ("deepep", "hybridep")]
    return named[0] if named else None


def _cuda_graphs(ctx: Context) -> str | None:
    impl = words(first(ctx.extra, "cuda_graph_impl", "cuda_graphs", "enable_cuda_graph"))
    scope = words(first(ctx.extra, "cuda_graph_scope", "cuda_graph_modules"))
    if not impl:
        return None
    kind = meaning("software", "cuda_graph_impl", impl)
    if kind == "none" or kind is None:
        return "none"
    if kind == "full" or "full_iteration" in scope:
        return "full"
    if "attn" in scope and ("mlp" in scope or "moe" in scope):
        return "layer"
    if "moe" in scope:
        return "moe"
    if "attn" in scope or "mamba" in scope or "mlp" in scope:
        return "attention"
    return "layer"
