"""Parameters of a model from its dimensions alone.

Used by `catalog check` (against published counts) and the `models` command. The operator graph counts its own weights
from its operators; a test compares the two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from windtunnel.specs.model import ModelSpec

RELATIVE_BUCKETS = 32
"""Relative position buckets of T5, one table per stack (Raffel et al. 2020, section 2.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """Elements, not bytes; unsharded."""

    total: int
    """All weights, without multi-token prediction layers."""
    active: int
    """Weights one token passes through: experts that are not chosen, and the input table it only looks up, left out."""
    embedding: int
    """Input tables: tokens, positions, types, patches."""
    head: int
    """Output projection; 0 where it is the token table."""
    final_norm: int
    per_kind: dict[str, int]
    """Letter of `ModelSpec.layer_kinds` → weights of one such layer."""
    active_per_kind: dict[str, int]
    num_layers: dict[str, int]
    """Letter → layers of the kind."""
    mtp: int
    """Multi-token prediction layers, kept apart because published totals leave them out."""


def _linear(inputs: int, outputs: int, bias: bool) -> int:
    return inputs * outputs + (outputs if bias else 0)


def _norm(width: int, model: ModelSpec) -> int:
    return width * (2 if model.norm == "layernorm" else 1)


def _attention(model: ModelSpec, *, windowed: bool = False) -> int:
    h, heads = model.hidden_size, model.num_attention_heads
    d, kv_heads, projections = model.attention_dims(windowed=windowed)
    bias = model.attention_bias
    if model.is_mla:
        rank, d_v = model.kv_lora_rank or 0, model.v_head_dim
        query = (
            _linear(h, model.q_lora_rank, bias) + model.q_lora_rank + _linear(model.q_lora_rank, heads * d, False)
            if model.q_lora_rank
            else _linear(h, heads * d, False)
        )
        down = _linear(h, rank + model.qk_rope_head_dim, bias) + rank
        up = _linear(rank, heads * (model.qk_nope_head_dim + d_v), False)
        return query + down + up + _linear(heads * d_v, h, bias) + _indexer(model)
    count = _linear(h, heads * d, bias) + projections * _linear(h, kv_heads * d, bias) + _linear(heads * d, h, bias)
    if model.attention_output_gate:
        count += h * heads * d
    if model.qk_norm:
        count += 2 * d
    if model.attention_sinks:
        count += heads
    return count


def _indexer(model: ModelSpec) -> int:
    """Queries, keys with their norm, and weights of heads of an indexer; 0 where the model has none."""
    if not model.index_topk:
        return 0
    wide = model.index_n_heads * model.index_head_dim
    queries = (model.q_lora_rank or model.hidden_size) * wide
    return queries + model.hidden_size * (model.index_head_dim + model.index_n_heads) + 2 * model.index_head_dim


def _mlp(model: ModelSpec, width: int) -> int:
    h, bias = model.hidden_size, model.mlp_bias
    return _linear(h, width, bias) * (2 if model.gated_mlp else 1) + _linear(width, h, bias)


def _shared_width(model: ModelSpec) -> int:
    return model.shared_expert_intermediate_size or model.n_shared_experts * model.moe_intermediate_size


def _mixture(model: ModelSpec, experts: int) -> int:
    """Router, `experts` routed experts and the shared width."""
    shared = _shared_width(model)
    return (
        model.hidden_size * model.num_experts
        + experts * _mlp(model, model.moe_intermediate_size)
        + (_mlp(model, shared) if shared else 0)
    )


def _mamba2(model: ModelSpec) -> int:
    """Mamba-2 mixer (Dao and Gu 2024, arXiv 2405.21060, section 7): in and out projections, convolution, gated norm."""
    inner = model.mamba_num_heads * model.mamba_head_dim
    states = 2 * model.n_groups * model.ssm_state_size
    projection = model.hidden_size * (2 * inner + states + model.mamba_num_heads) + inner * model.hidden_size
    convolution = (inner + states) * (model.conv_kernel + 1)
    return projection + convolution + 3 * model.mamba_num_heads + inner


def _linear_attention(model: ModelSpec) -> int:
    """Gated delta rule layer (Yang et al. 2024, arXiv 2412.06464) as Qwen3-Next lays it out."""
    keys = model.linear_num_key_heads * model.linear_key_head_dim
    values = model.linear_num_value_heads * model.linear_value_head_dim
    if model.linear_attention_kind == "decayed":  # queries, keys, values, gate, output; one norm
        return model.hidden_size * (2 * keys + 3 * values) + values
    projection = model.hidden_size * (2 * keys + 2 * values + 2 * model.linear_num_value_heads)
    convolution = (2 * keys + values) * model.conv_kernel
    return (
        projection
        + convolution
        + 2 * model.linear_num_value_heads
        + model.linear_value_head_dim
        + values * model.hidden_size
    )


def _layer(model: ModelSpec, kind: str, experts: int) -> int:
    """Weights of one layer of a kind with `experts` routed experts counted."""
    norm = _norm(model.hidden_size, model)
    if kind == "M":
        return _mamba2(model) + norm
    if kind == "A":
        return _attention(model) + norm
    if kind == "F":
        return _mlp(model, model.intermediate_size) + norm
    if kind == "G":
        return _mixture(model, experts) + norm
    mixer = _linear_attention(model) if kind in "LN" else _attention(model, windowed=kind in "WX")
    channel = _mixture(model, experts) if kind in "ENX" else _mlp(model, model.intermediate_size)
    norms = (1 if model.parallel_block else 2) * (2 if model.post_norm else 1)
    if kind == "C":
        return 2 * mixer + channel + 3 * norm
    return mixer + channel + norms * norm


def _embedding(model: ModelSpec) -> int:
    h = model.hidden_size
    if model.family == "vit":
        patches = (model.image_size // model.patch_size) ** 2
        return _linear(model.num_channels * model.patch_size**2, h, True) + (patches + 1) * h + h
    count = model.vocab_size * h
    if model.position_embedding == "learned":
        count += model.max_position_embeddings * h
    if model.position_embedding == "relative":
        stacks = 2 if model.family == "encoder_decoder" else 1
        count += stacks * RELATIVE_BUCKETS * model.num_attention_heads
    if model.family == "encoder":
        count += 2 * h + _norm(h, model)  # token types and the norm after the tables (Devlin et al. 2018)
    return count + model.tower_parameters


def _head(model: ModelSpec) -> int:
    h = model.hidden_size
    if model.family == "vit":
        return _linear(h, model.num_labels, True) if model.num_labels else 0
    if model.family == "encoder":
        return _linear(h, h, True)  # pooler; the masked-word head is not part of published counts
    return 0 if model.tie_word_embeddings else model.vocab_size * h


def _composed(model: ModelSpec) -> ParameterCount:
    """The count where layers are written one by one: sums over their sub-blocks."""
    layers = Counter(model.layer_kinds())
    per_kind = {kind: sum(b.weights(b.experts) for b in model.layer_of(kind)) for kind in layers}
    active = {kind: sum(b.passed_weights(b.experts_per_token) for b in model.layer_of(kind)) for kind in layers}
    table = model.vocab_size * model.hidden_size
    embedding = (table if model.input_parameters is None else model.input_parameters) + model.tower_parameters
    norm = _norm(model.hidden_size, model) if model.output_parameters is None else 0
    head = model.output_parameters if model.output_parameters is not None else table * (not model.tie_word_embeddings)
    tied = model.vocab_size * (model.output_size or model.hidden_size) * model.tie_word_embeddings
    looked_up = max(embedding - tied, 0)
    return ParameterCount(
        total=embedding + head + norm + sum(per_kind[k] * n for k, n in layers.items()),
        active=embedding - looked_up + head + norm + sum(active[k] * n for k, n in layers.items()),
        embedding=embedding,
        head=head,
        final_norm=norm,
        per_kind=per_kind,
        active_per_kind=active,
        num_layers=dict(layers),
        mtp=0,
    )


def count_parameters(model: ModelSpec) -> ParameterCount:
    """Count a model's weights.

    Args:
        model: dimensions.

    Returns:
        Totals and one layer of each kind.

    Valid for: every family of `ModelSpec`. Biases of routers and of gated-attention output gates are left out (below
    0.2 % in the catalogue's models).
    """
    if model.layers:
        return _composed(model)
    layers = Counter(model.layer_kinds())
    per_kind = {kind: _layer(model, kind, model.num_experts) for kind in layers}
    active_per_kind = {kind: _layer(model, kind, model.num_experts_per_tok) for kind in layers}
    stacks = 2 if model.family == "encoder_decoder" else 1
    final_norm = 0 if model.family == "encoder" else stacks * _norm(model.hidden_size, model)
    embedding, head = _embedding(model), _head(model)
    outside = embedding + head + final_norm
    # a tied table is also the output projection, so a token does pass through it
    looked_up = 0 if model.tie_word_embeddings or model.family in ("vit", "encoder") else embedding
    last = model.layer_kinds()[-1]
    mtp = model.num_nextn_predict_layers * (
        per_kind[last] + 2 * model.hidden_size**2 + 3 * _norm(model.hidden_size, model)
    )
    return ParameterCount(
        total=outside + sum(per_kind[k] * n for k, n in layers.items()),
        active=outside - looked_up + sum(active_per_kind[k] * n for k, n in layers.items()),
        embedding=embedding,
        head=head,
        final_norm=final_norm,
        per_kind=per_kind,
        active_per_kind=active_per_kind,
        num_layers=dict(layers),
        mtp=mtp,
    )
