"""Dimensions of the model in a row, as a `ModelSpec`."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from windtunnel.errors import WindtunnelError
from windtunnel.specs.model import ModelSpec
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.loose_values import count, first, mapping, number, switch, words
from windtunnel.validation.rows.parsing.pattern_tables import default, matches, meaning, table

_NOT_A_TRANSFORMER = r"\bcnn\b|convol|resnet|u-?net|diffusion|dlrm|recommend|\bgnn\b|graph neural|\brnn\b|lstm|speech"
_KINDS = (
    ("encoder_decoder", r"enc\w*[-_ ]*dec|seq2seq|\bt5"),
    ("vit", r"\bvit\b|vision transformer"),
    ("encoder", r"^encoder|bert|bidirectional"),
    ("hybrid", r"mamba|hybrid|ssm"),
    ("moe", r"moe|mixture|expert|sparse"),
)


def read_model(ctx: Context) -> ModelSpec | str:
    """The row's model, or why it cannot be determined."""
    source = dict(ctx.model)
    nested = mapping(source.get("moe")) | mapping(source.get("mla"))
    source |= {k: v for k, v in nested.items() if source.get(k) is None}
    name = str(first(source, "name", "model") or "unnamed")
    if re.search(_NOT_A_TRANSFORMER, words(source.get("type"))):
        return f"model {name}: {words(source.get('type'))} is not modelled"
    hidden = count(first(source, "hidden", "hidden_size", "d_model", "n_embd", "emb_dim"))
    layers = count(first(source, "layers", "num_hidden_layers", "num_layers", "n_layers", "n_layer"))
    if hidden is None or layers is None:
        return _from_catalogue(ctx, name, layers)
    _complete(ctx, source, name, hidden)
    fields: dict[str, Any] = {}
    for pattern, traits in table("models")["traits"]:
        if matches(pattern, name.lower()):
            fields |= traits
    kind = _kind(source, name, fields)
    fields |= _trunk(ctx, source, hidden, layers, kind)
    fields |= _attention(ctx, source, hidden)
    fields |= _mixture(ctx, source, name, fields)
    fields |= _depth(ctx, source, kind, layers)
    fields |= _latent(source, nested, fields)
    if kind == "moe" and not fields.get("num_experts"):
        return f"model {name}: a mixture whose number of experts is not stated"
    if kind in ("dense", "moe"):
        latent = fields.get("kv_lora_rank") is not None
        kind = "mla_moe" if latent and fields.get("num_experts") else kind
    known = {k: v for k, v in fields.items() if k in ModelSpec.model_fields and v is not None}
    try:
        return ModelSpec.model_validate({"name": name, "family": kind, **known})
    except (ValidationError, ValueError) as error:
        return f"model {name}: {_message(error)}"


_PUBLIC = {
    "ffn": "intermediate_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "vocab": "vocab_size",
    "head_dim": "head_dim",
    "experts": "num_experts",
    "topk": "num_experts_per_tok",
    "moe_ffn": "moe_intermediate_size",
    "gated_mlp": "gated_mlp",
}


def _complete(ctx: Context, source: dict[str, Any], name: str, hidden: int) -> None:
    """Fill dimensions that the row leaves out from the catalogue's model of that name, if it has the same width."""
    needed = ["ffn", "heads", "vocab"]
    if re.search(r"moe|mixture", words(source.get("type"))):
        needed.append("experts")
    aliases = {
        "ffn": ("intermediate_size", "ffn_hidden_size", "d_ff"),
        "heads": ("num_attention_heads", "n_heads"),
        "vocab": ("vocab_size",),
        "experts": ("num_experts", "n_experts", "n_routed_experts"),
    }
    missing = [k for k in needed if count(first(source, k, *aliases[k])) is None]
    try:
        from windtunnel import catalog

        public = catalog.model(name)
    except (WindtunnelError, ImportError, OSError, ValueError, AttributeError):
        return
    if public.hidden_size != hidden:
        return
    _public_facts(ctx, source, public)
    if not missing:
        return
    for key, attribute in _PUBLIC.items():
        if source.get(key) is None and getattr(public, attribute):
            source[key] = getattr(public, attribute)
    ctx.assume("model", public.name, f"{', '.join(missing)} not stated; taken from the catalogue by name")


def _public_facts(ctx: Context, source: dict[str, Any], public: ModelSpec) -> None:
    """Gating and window of the public model of that name and width: a flag missing in a script does not undo them.

    The vocabulary is the public one where the row has a script's default instead (GPT-2's 50,257, padded or not).
    """
    width = count(first(source, "ffn", "intermediate_size", "ffn_hidden_size", "d_ff"))
    if width in (None, public.intermediate_size) and public.gated_mlp and switch(source.get("gated_mlp")) is not True:
        if source.get("gated_mlp") is not None:
            ctx.assume("model.gated_mlp", True, f"{public.name} has a gated MLP of this width")
        source["gated_mlp"] = True
    if public.sliding_window and first(source, "sliding_window", "window") is None:
        source["sliding_window"] = public.sliding_window
    vocabulary = count(first(source, "vocab", "vocab_size"))
    if vocabulary in _SCRIPT_VOCABULARIES and public.vocab_size not in _SCRIPT_VOCABULARIES:
        ctx.assume("model.vocab_size", public.vocab_size, f"{vocabulary} is a script's default, not {public.name}'s")
        source["vocab"] = public.vocab_size


_SCRIPT_VOCABULARIES = (50257, 50258, 50304, 51200)
"""GPT-2's vocabulary as scripts take it by default, plain and padded to whole tiles."""


def _message(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))} {e['msg']}".strip() for e in error.errors())
    return str(error)


def _from_catalogue(ctx: Context, name: str, layers: int | None) -> ModelSpec | str:
    """Dimensions by name, for rows that give none."""
    try:
        from windtunnel import catalog

        model = catalog.model(name)
    except (WindtunnelError, ImportError, OSError, ValueError, AttributeError):
        return f"dimensions of {name} are not stated and the name is not in the catalogue"
    ctx.assume("model", model.name, "dimensions not stated; taken from the catalogue by name")
    return model.model_copy(update={"num_hidden_layers": layers}) if layers else model


def _kind(source: dict[str, Any], name: str, traits: dict[str, Any]) -> str:
    text = words(source.get("type"))
    if count(first(source, "encoder_layers", "num_encoder_layers")) and count(
        first(source, "decoder_layers", "num_decoder_layers")
    ):
        return "encoder_decoder"
    for kind, pattern in _KINDS:
        if re.search(pattern, text) or (not text and re.search(pattern, name.lower())):
            return kind
    if source.get("layer_pattern") or source.get("hybrid_override_pattern"):
        return "hybrid"
    if (count(first(source, "experts", "num_experts", "n_experts")) or 0) > 1:
        return "moe"
    return "encoder" if "bert" in name.lower() else "dense"


def _trunk(ctx: Context, source: dict[str, Any], hidden: int, layers: int, kind: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"hidden_size": hidden, "num_hidden_layers": layers}
    gated = switch(first(source, "gated_mlp", "gated", "swiglu"))
    activation = words(first(source, "activation", "hidden_act"))
    if gated is None and activation and matches(table("models")["gated_activation"], activation):
        gated = True
    if gated is not None:
        fields["gated_mlp"] = gated
        fields.setdefault("hidden_act", "silu" if gated else "gelu")
    if activation:
        fields["hidden_act"] = meaning("models", "activation", activation) or "gelu"
    width = count(first(source, "ffn", "intermediate_size", "ffn_hidden_size", "d_ff"))
    if width is None:
        width = 4 * hidden
        ctx.assume("model.intermediate_size", width, "not stated; four times the hidden size")
    fields["intermediate_size"] = width
    vocabulary = count(first(source, "vocab", "vocab_size"))
    if vocabulary is None:
        vocabulary = 1000 if kind == "vit" else 51200
        ctx.assume("model.vocab_size", vocabulary, "not stated")
    fields["vocab_size"] = vocabulary
    tied = switch(first(source, "tied_embeddings", "tie_word_embeddings", "tied"))
    if tied is not None:
        fields["tie_word_embeddings"] = tied
    if switch(source.get("learned_pos_emb")):
        fields["position_embedding"] = "learned"
        fields["max_position_embeddings"] = count(ctx.fields.get("seq_len"))
    if switch(source.get("alibi")):
        fields["position_embedding"] = "alibi"
    bias = switch(source.get("no_bias"))
    if bias is None and gated is False and "layernorm" == _norm(source) and kind in ("dense", "encoder"):
        fields |= {"attention_bias": True, "mlp_bias": True}
    elif bias is False:
        fields |= {"attention_bias": True, "mlp_bias": True}
    if switch(source.get("parallel_block")) or switch(source.get("parallel_residual")):
        fields["parallel_block"] = True
    window = count(first(source, "sliding_window", "window"))
    if window:
        fields["sliding_window"] = window
    return fields


def _norm(source: dict[str, Any]) -> str:
    stated = words(source.get("norm"))
    if stated:
        return "rmsnorm" if "rms" in stated else "layernorm"
    for pattern, traits in reversed(table("models")["traits"]):
        if "norm" in traits and matches(pattern, words(source.get("name"))):
            return str(traits["norm"])
    return "rmsnorm"


def _attention(ctx: Context, source: dict[str, Any], hidden: int) -> dict[str, Any]:
    heads = count(first(source, "heads", "num_attention_heads", "n_heads", "num_heads"))
    head = count(first(source, "head_dim", "d_head", "kv_channels"))
    if heads is None:
        heads = max(1, hidden // (head or 128))
        ctx.assume("model.num_attention_heads", heads, f"not stated; heads of {head or 128}")
    fields: dict[str, Any] = {"num_attention_heads": heads}
    kv = count(first(source, "kv_heads", "num_key_value_heads", "num_query_groups", "n_kv_heads"))
    if kv is not None:
        fields["num_key_value_heads"] = kv if heads % kv == 0 else heads
    if head is not None:
        fields["head_dim"] = head
    elif hidden % heads:
        fields["head_dim"] = 128
    return fields


def _mixture(ctx: Context, source: dict[str, Any], name: str, seen: dict[str, Any]) -> dict[str, Any]:
    experts = count(first(source, "experts", "num_experts", "n_experts", "n_routed_experts"))
    if not experts or experts < 2:
        return {}
    top = count(first(source, "topk", "top_k", "num_experts_per_tok", "moe_topk"))
    if top is None:
        top = min(2, experts)
        ctx.assume("model.num_experts_per_tok", top, "not stated")
    inner = count(first(source, "moe_ffn", "moe_intermediate_size", "expert_ffn")) or seen["intermediate_size"]
    shared = count(first(source, "shared_experts", "n_shared_experts")) or 0
    width = count(first(source, "shared_ffn", "shared_expert_intermediate_size")) or 0
    if shared > 1 and width == inner:
        width *= shared
    if shared and not width:
        width = shared * inner
    if width and not shared:
        shared = 1
    fields: dict[str, Any] = {
        "num_experts": experts,
        "num_experts_per_tok": min(top, experts),
        "moe_intermediate_size": inner,
        "n_shared_experts": shared,
        "shared_expert_intermediate_size": width,
        "first_k_dense_replace": count(first(source, "first_k_dense", "first_k_dense_replace", "dense_layers")) or 0,
        "moe_layer_freq": count(first(source, "moe_every", "moe_layer_freq", "interleave_moe_layer_step")) or 1,
    }
    capacity = number(first(source, "capacity_factor", "moe_capacity_factor"))
    if capacity is None:
        capacity = number(first(ctx.extra, "capacity_factor", "moe_expert_capacity_factor"))
    if capacity is None and matches(table("models")["tokendrop"], name.lower()):
        capacity = 1.0
        ctx.assume("model.capacity_factor", 1.0, "the name says that tokens are dropped; the factor is not stated")
    if capacity is None and (rule := default("capacity_factor", ctx)):
        capacity = float(rule[0])
        ctx.assume("model.capacity_factor", *rule)
    if capacity is not None and capacity > 0:
        fields["capacity_factor"] = capacity
    return fields


def _public_pattern(ctx: Context, name: str, layers: int) -> str | None:
    """The published depth pattern, for rows whose own does not have the stated number of layers."""
    try:
        from windtunnel import catalog

        pattern = catalog.model(name).hybrid_override_pattern
    except (WindtunnelError, ImportError, OSError, ValueError, AttributeError):
        pattern = None
    fits = pattern is not None and len(pattern) == layers
    why = "the row's pattern does not have the stated number of layers"
    ctx.assume("model.hybrid_override_pattern", "published" if fits else "as written", why)
    return pattern if fits else None


def _depth(ctx: Context, source: dict[str, Any], kind: str, layers: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if kind == "encoder_decoder":
        encoder = count(first(source, "encoder_layers", "num_encoder_layers")) or layers // 2
        decoder = count(first(source, "decoder_layers", "num_decoder_layers")) or max(1, layers - encoder)
        fields |= {"num_encoder_layers": encoder, "num_decoder_layers": decoder, "num_hidden_layers": encoder + decoder}
    pattern = first(source, "layer_pattern", "hybrid_override_pattern")
    if kind == "hybrid" and isinstance(pattern, str) and pattern:
        letters = "".join(c for c in pattern if c in "M*-E")
        if len(letters) != layers:
            letters = _public_pattern(ctx, str(source.get("name")), layers) or letters
        fields |= {
            "hybrid_override_pattern": letters,
            "num_hidden_layers": len(letters),
            "mamba_num_heads": count(first(source, "mamba_heads", "mamba_num_heads")) or 0,
            "mamba_head_dim": count(source.get("mamba_head_dim")) or 0,
            "ssm_state_size": count(first(source, "mamba_state", "ssm_state_size")) or 0,
            "n_groups": count(first(source, "mamba_groups", "n_groups")) or 1,
            "chunk_size": count(first(source, "mamba_chunk", "chunk_size")) or _scan_chunk(ctx),
        }
    interval = count(first(source, "full_attention_interval", "linear_attention_interval"))
    if interval:
        fields["full_attention_interval"] = interval
    predicted = switch(first(source, "mtp", "num_nextn_predict_layers", "mtp_layers"))
    if predicted is None and (rule := default("mtp", ctx)):
        predicted = bool(rule[0])
        ctx.assume("model.num_nextn_predict_layers", *rule)
    if predicted:
        fields["num_nextn_predict_layers"] = count(first(source, "num_nextn_predict_layers", "mtp_layers")) or 1
    return fields


def _scan_chunk(ctx: Context) -> int | None:
    """Tokens of a scan's chunk: Megatron's mixer and the Nemotron-H configurations say 128, `mamba_ssm` 256."""
    return 128 if matches(r"nemo|megatron|bridge", ctx.framework) else None


def _latent(source: dict[str, Any], nested: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """Multi-head latent attention, from its own mapping or from the name."""
    names = {
        "q_lora_rank": ("q_lora", "q_lora_rank"),
        "kv_lora_rank": ("kv_lora", "kv_lora_rank"),
        "qk_nope_head_dim": ("qk_nope", "qk_nope_head_dim"),
        "qk_rope_head_dim": ("qk_rope", "qk_rope_head_dim"),
        "v_head_dim": ("v_head", "v_head_dim"),
    }
    stated = {field: count(first(source, *keys)) for field, keys in names.items()}
    found = {field: value for field, value in stated.items() if value is not None}
    if (found.get("kv_lora_rank") or seen.get("kv_lora_rank")) is None:
        return found
    return {**found, "head_dim": None, "num_key_value_heads": None}
