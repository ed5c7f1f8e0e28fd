"""Formats of weights that a checkpoint states: `quantization_config` in `config.json`, or `hf_quant_config.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from windtunnel.stacks.weight_formats import WEIGHTS, format_at_start, format_named, format_of_bits, in_field, served

Formats = dict[str, str]

_GROUPWISE = frozenset({"awq", "gptq", "auto-round", "autoround", "hqq", "gptq_marlin", "awq_marlin", "inc", "aqlm"})
"""Methods that keep whole numbers of `bits` bits and multiply in 16."""
_FEW_LAYERS = 4
"""Layers whose attention checkpoints leave in 16 bits that quantise all others."""


def stored_formats(config: Mapping[str, Any]) -> Formats | None:
    """Fields of `serving.precision` that a checkpoint's configuration decides; None where it states nothing known.

    Args:
        config: a `config.json`, or a `hf_quant_config.json` of ModelOpt.
    """
    if isinstance(config.get("quantization"), Mapping):  # hf_quant_config.json
        return _modelopt(config["quantization"])
    inner = config.get("text_config")
    own = config.get("quantization_config") or (
        inner.get("quantization_config") if isinstance(inner, Mapping) else None
    )
    own = own or config.get("compression_config")
    if not isinstance(own, Mapping):
        return None
    parts = [config, inner] if isinstance(inner, Mapping) else [config]
    has_experts = any("expert" in name and value for part in parts for name, value in part.items())
    method = str(own.get("quant_method") or own.get("quant_type") or "").lower()
    found = _by_method(method, own)
    experts = config.get("expert_dtype") or own.get("expert_dtype")
    found_experts = (found or {}).get("experts", "")
    if found is not None and found_experts and not has_experts:  # a dense model, whose attention was left out
        apart = {"attention": "bf16"} if _leaves_attention_out(own, ("ignore", "exclude_modules", "exclude")) else {}
        found = {name: value for name, value in found.items() if name != "experts"}
        found |= {"weights": found_experts} | apart
    said = served(experts, "expert_dtype") if isinstance(experts, str) else None
    if found is not None and "experts" not in found and (stored := said) is not None:  # of the first checkpoint
        found = found | {"experts": stored}
    return found


def _by_method(method: str, own: Mapping[str, Any]) -> Formats | None:
    if method == "mxfp4":  # transformers and vLLM convert the experts of gpt-oss alone
        return {"weights": "bf16", "experts": "mxfp4"}
    if method in ("fp8", "fbgemm_fp8", "finegrained_fp8"):
        apart = (
            {"attention": "bf16"} if _leaves_attention_out(own, ("modules_to_not_convert", "ignored_layers")) else {}
        )
        return {"weights": "fp8_block" if own.get("weight_block_size") else "fp8"} | apart
    if method in _GROUPWISE:
        return _groupwise(own)
    if method in ("bitsandbytes", "bnb"):
        if own.get("load_in_4bit") or own.get("_load_in_4bit"):
            return {"weights": "w4a16"}
        return {"weights": "int8"} if own.get("load_in_8bit") or own.get("_load_in_8bit") else None
    if method in ("modelopt", "modelopt_fp4", "modelopt_fp8", "modelopt_mixed") or "quant_algo" in own:
        return _modelopt(own) or ({"weights": "nvfp4"} if method == "modelopt_fp4" else None)
    if method == "quark":
        return _quark(own)
    if method == "torchao":
        return _torchao(own)
    if method in ("experts_int8", "eetq", "quanto"):
        return {"weights": "int8"} if method != "experts_int8" else {"weights": "bf16", "experts": "int8"}
    return _compressed(own) if method in ("compressed-tensors", "compressed_tensors") else None


_OWN_ATTENTION = re.compile(
    r"(?<![a-z_])(self_)?attn\W*$|(?<![a-z_])(self_)?attn\W+(q|k|v|o|qkv|out|kv_b|q_b)_proj\W*$"
)
"""Names of a layer's attention or of a matrix of it, not of its norms or its indexer."""
_TOWERS = ("vision", "visual", "audio")


def _attention_of(names: Any) -> list[str]:
    """Those of the modules left out that are attention of the text model."""
    listed = [str(name) for name in names] if isinstance(names, list | tuple) else [str(names)]
    return [name for name in listed if _OWN_ATTENTION.search(name) and not any(tower in name for tower in _TOWERS)]


def _leaves_attention_out(own: Mapping[str, Any], lists: tuple[str, ...]) -> bool:
    """Whether modules that stay in 16 bits are the attention of most layers, not of a first, last or drafting one."""
    attention = _attention_of(next((own[name] for name in lists if own.get(name)), ()))
    layers = {part for name in attention for part in name.split(".") if part.isdigit()}
    return len(layers) > _FEW_LAYERS or any(not any(map(str.isdigit, name)) for name in attention)


def _groupwise(own: Mapping[str, Any]) -> Formats | None:
    """Whole numbers of 4 bits or, nearest to it in bytes, 8."""
    bits = own.get("bits") or own.get("w_bit") or own.get("nbits") or own.get("weight_bits")
    if bits is None and isinstance(own.get("weights"), Mapping):
        bits = own["weights"].get("bits")
    stored = in_field(format_of_bits("", bits), WEIGHTS)
    return None if stored is None else {"weights": stored}


def _modelopt(own: Mapping[str, Any]) -> Formats | None:
    """One algorithm for all layers or, with MIXED_PRECISION, one a layer; layers that are left out have 16 bits."""
    algorithm = str(own.get("quant_algo") or "")
    if algorithm == "MIXED_PRECISION":
        layers = own.get("quantized_layers")
        found = _of_layers(layers) if isinstance(layers, Mapping) else None
    else:
        stored = served(algorithm)
        found = None if stored is None else _apart(stored, own.get("exclude_modules") or own.get("ignore") or ())
    if found is None and isinstance(own.get("config_groups"), Mapping):
        found = _compressed(own)
    cache = str(own.get("kv_cache_quant_algo") or "").lower() or _cache_scheme(own)
    return found if found is None or cache != "fp8" else found | {"kv_cache": "fp8"}


def _of_layers(layers: Mapping[str, Any]) -> Formats | None:
    """The format of the experts, where there are any, and that of the other layers, by the number of layers."""
    stored = {
        name: served(str(layer.get("quant_algo"))) for name, layer in layers.items() if isinstance(layer, Mapping)
    }
    experts = _most(format for name, format in stored.items() if "expert" in name and "shared" not in name)
    others = _most(format for name, format in stored.items() if "expert" not in name or "shared" in name)
    if experts is None:
        return None if others is None else {"weights": others}
    return {"weights": experts} if others == experts else {"weights": others or "bf16", "experts": experts}


def _most(formats: Iterable[str | None]) -> str | None:
    known = [format for format in formats if format is not None]
    return max(dict.fromkeys(known), key=known.count) if known else None


def _quark(own: Mapping[str, Any]) -> Formats | None:
    whole = own.get("global_quant_config")
    weight = whole.get("weight") if isinstance(whole, Mapping) else None
    if isinstance(weight, list):  # one scheme upon another: the first is what is stored
        weight = weight[0] if weight else None
    stored = served(str(weight.get("dtype")), "quark") if isinstance(weight, Mapping) else None
    return None if stored is None else _apart(stored, own.get("exclude") or ())


def _torchao(own: Mapping[str, Any]) -> Formats | None:
    kind = own.get("quant_type")
    if isinstance(kind, Mapping):  # {"default": {"_type": "Float8DynamicActivation…", …}}
        default = kind.get("default")
        kind = default.get("_type") if isinstance(default, Mapping) else None
    stored = in_field(format_at_start(str(kind or ""), "torchao"), WEIGHTS)
    return None if stored is None else {"weights": stored}


def _compressed(own: Mapping[str, Any]) -> Formats | None:
    """Formats of a configuration that compressed-tensors wrote."""
    groups = own.get("config_groups")
    listed = [group for group in groups.values() if isinstance(group, Mapping)] if isinstance(groups, Mapping) else []
    stored = [(_of_group(group, own), group.get("targets") or ()) for group in listed]
    cache = {"kv_cache": "fp8"} if _cache_scheme(own) == "fp8" else {}
    known = {format for format, _ in stored}
    if len(known) == 1:
        (format,) = known
        return None if format is None else _apart(format, own.get("ignore") or ()) | cache
    experts = _most(format for format, targets in stored if "expert" in str(targets))
    others = _most(format for format, targets in stored if "expert" not in str(targets))
    if experts is None or others is None:
        return None
    return {"weights": others, "experts": experts} | cache


def _of_group(group: Mapping[str, Any], own: Mapping[str, Any]) -> str | None:
    weights = group.get("weights")
    if not isinstance(weights, Mapping):
        return None
    format = format_named(f"{weights.get('type')}{weights.get('num_bits')}")
    packing = str(group.get("format") or own.get("format") or "")
    if format == "nvfp4" and (weights.get("group_size") == 32 or "mxfp4" in packing):
        return "mxfp4"
    if format == "w4a16" and _eight_bits(group.get("input_activations")):
        return "w4a8"
    return "fp8_block" if format == "fp8" and weights.get("strategy") == "block" else format


def _eight_bits(activations: Any) -> bool:
    return isinstance(activations, Mapping) and activations.get("num_bits") == 8


def _cache_scheme(own: Mapping[str, Any]) -> str:
    scheme = own.get("kv_cache_scheme")
    if not isinstance(scheme, Mapping):
        return ""
    return "fp8" if scheme.get("num_bits") == 8 and scheme.get("type", "float") == "float" else ""


def _apart(format: str, left_out: Any) -> Formats:
    """One format for all weights, or for the experts alone where the attention is left out."""
    return {"weights": "bf16", "experts": format} if _attention_of(left_out) else {"weights": format}
