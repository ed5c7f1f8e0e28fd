"""Attention sub-blocks: MHA/GQA/MQA, sliding window, cross attention and multi-head latent attention."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.graph.indexer import index_scores
from windtunnel.graph.operators import Batch, Kind, Operator, Style, Tensor, linear, pointwise
from windtunnel.specs.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Parts:
    """Operators and tensors of a sub-block, and its weights."""

    operators: list[Operator]
    tensors: list[Tensor]
    params: float
    expert_params: float = 0.0


def norm_and_residual(
    model: ModelSpec, batch_tokens: float, style: Style, which: str
) -> tuple[list[Operator], list[Tensor]]:
    """One norm and the residual addition that follows its branch. Bytes at two per element."""
    h, t = float(model.hidden_size), batch_tokens
    post = 1 if model.post_norm else 0
    passes = style.norm_passes(model.norm)
    f = (passes[0] * (1 + post) + style.residual[0]) * h * t * 2
    b = (passes[1] * (1 + post) + style.residual[1]) * h * t * 2
    weights = h * (1 + post) * (2 if model.norm == "layernorm" else 1)
    op = pointwise(f"{which}_norm", "norm", "sequence", (f, b), (2, 3), params=weights)
    consumer = {"attn": "qkv", "mlp": "fc1", "cross": "cross_qkv"}[which]
    # a layer norm is one kernel in every stack; only norms written out in eager code keep intermediates
    kept = 1.0 if model.norm == "layernorm" and style.saved_per_norm > 2.0 else style.saved_per_norm - 1.0
    source = {"attn": "", "mlp": "proj", "cross": "proj"}[which]
    tensors = [
        Tensor(f"{which}_input", h * t, "sequence", producer=source, consumers=("norm",)),
        Tensor(
            f"{which}_norm_out",
            kept * h * t,
            "sequence",
            producer="norm",
            consumers=(consumer,),
        ),
    ]
    if style.residual_mask:
        tensors.append(Tensor(f"{which}_residual_mask", h * t, "sequence", 1.0, producer="norm", consumers=("norm",)))
    return [op], tensors


def masked_pairs(model: ModelSpec, batch: Batch, *, windowed: bool, causal: bool) -> float:
    """Query-key pairs per head over the micro-batch.

    A window of w tokens leaves q·w − w²/2 pairs of a causal sequence, chunks of c tokens c²/2 each.
    """
    if not causal:
        return batch.full_pairs
    if windowed and model.sliding_window and model.sliding_window < batch.seq_len:
        return picked_pairs(batch, model.sliding_window)
    chunk = model.attention_chunk_size
    if windowed and chunk and chunk < batch.seq_len:
        whole, rest = divmod(batch.seq_len, float(chunk))
        return batch.tokens / batch.seq_len * (whole * chunk**2 + rest**2) / 2
    return batch.pairs


def self_attention(
    model: ModelSpec, batch: Batch, style: Style, *, unfused: bool, windowed: bool = False, causal: bool = True
) -> Parts:
    """Norm, projections, core attention, output projection."""
    if model.is_mla:
        return _latent_attention(model, batch, style)
    t, h = batch.tokens, float(model.hidden_size)
    size, kv_heads, projections = model.attention_dims(windowed=windowed)
    d = float(size)
    a, kv, made = model.num_attention_heads * d, kv_heads * d, projections * kv_heads * d
    bias = 1.0 if model.attention_bias else 0.0
    operators, tensors = norm_and_residual(model, t, style, "attn")
    params = h * (a + made) + bias * (a + made)
    operators.append(linear("qkv", "qkv", "column", m=t, n=a + made, k=h, params=params))
    if model.attention_output_gate:
        operators.append(linear("attn_gate", "qkv", "column", m=t, n=a, k=h, params=h * a))
    if style.qkv_split[0]:
        operators.append(
            pointwise("qkv_split", "qkv", "features", moved_bytes(style.qkv_split, (a + made) * t * 2), (3, 3))
        )
    passes = rotation_passes(model, style)
    if passes[0]:
        norm_params = 2 * d if model.qk_norm else 0.0
        operators.append(
            pointwise("rope", "rope", "features", moved_bytes(passes, (a + kv) * t * 2), (1, 1), params=norm_params)
        )
    tensors += [
        Tensor("query", a * t, "heads", producer="qkv", consumers=("core_attn",)),
        Tensor("key_value", made * t, "heads", producer="qkv", consumers=("core_attn",)),
    ]
    if style.expands_kv and a > kv:
        tensors.append(Tensor("key_value_copies", 2 * (a - kv) * t, "heads", producer="rope", consumers=("core_attn",)))
    pairs = masked_pairs(model, batch, windowed=windowed, causal=causal)
    core, kept = core_attention(batch, style, model.num_attention_heads, kv_heads, d, d, pairs, unfused=unfused)
    operators += core
    tensors += kept
    tensors.append(Tensor("attention_out", a * t, "heads", producer="core_attn", consumers=("core_attn", "proj")))
    if model.attention_output_gate:
        gate = moved_bytes(style.activation_gated, a * t * 2)
        operators.append(pointwise("attn_gating", "core_attn", "features", gate, (1, 1)))
        tensors.append(Tensor("attn_gate_out", a * t, "heads", producer="qkv", consumers=("core_attn",)))
    operators.append(linear("proj", "proj", "row", m=t, n=h, k=a, params=h * a + bias * h))
    return Parts(operators, tensors, sum(op.params for op in operators))


def moved_bytes(passes: tuple[float, float], nbytes: float) -> tuple[float, float]:
    """Bytes that passes over a tensor of `nbytes` move, forward and backward."""
    return passes[0] * nbytes, passes[1] * nbytes


def rotation_passes(model: ModelSpec, style: Style) -> tuple[float, float]:
    """Passes over queries and keys between projection and attention: rotation, and their norms."""
    # without rotation an eager stack still copies the packed projection once
    copies = (2.0, 2.0) if style.saves_gate else (0.0, 0.0)
    passes = style.rope if model.position_embedding == "rope" else copies
    norm = (3.0, 4.0) if model.qk_norm else (0.0, 0.0)
    return passes[0] + norm[0], passes[1] + norm[1]


def core_attention(
    batch: Batch, style: Style, heads: float, kv_heads: float, d_qk: float, d_v: float, pairs: float, *, unfused: bool
) -> tuple[list[Operator], list[Tensor]]:
    """Scores, softmax and context: one fused kernel, or one kernel after the other.

    Args:
        batch: tokens of the micro-batch.
        style: fusion of element-wise work.
        heads: query heads.
        kv_heads: key/value heads.
        d_qk: elements of a query or key head.
        d_v: elements of a value head.
        pairs: query-key pairs per head over the micro-batch.
        unfused: whether kernels are separate; scores are then computed in full.
    """
    t, s = batch.tokens, batch.seq_len
    if not unfused:
        op = Operator(
            name="core_attn",
            module="core_attn",
            kind=Kind.ATTENTION,
            rule="heads",
            m=t,
            pairs=pairs,
            seq_len=s,
            heads=heads,
            kv_heads=kv_heads,
            d_qk=d_qk,
            d_v=d_v,
        )
        return [op], [Tensor("softmax_lse", heads * t, "heads", 4.0, producer="core_attn", consumers=("core_attn",))]
    groups = batch.sequences * heads
    scores = groups * s * s
    soft, drop = style.unfused_softmax, style.unfused_dropout
    operators = [
        Operator(
            name="scores", module="core_attn", kind=Kind.BATCHED_GEMM, rule="heads", m=s, n=s, k=d_qk, groups=groups
        ),
        pointwise(
            "softmax", "core_attn", "heads", (soft[0] * scores * 2, soft[1] * scores * 2), (1, 1), row_reduction=True
        ),
        pointwise("attn_dropout", "core_attn", "heads", (drop[0] * scores * 2, drop[1] * scores * 2), (1, 1)),
        Operator(
            name="context", module="core_attn", kind=Kind.BATCHED_GEMM, rule="heads", m=s, n=d_v, k=s, groups=groups
        ),
    ]
    if style.context[0]:
        moved = heads * d_v * t * 2
        operators.append(
            pointwise(
                "context_transpose", "core_attn", "heads", (style.context[0] * moved, style.context[1] * moved), (1, 1)
            )
        )
    return operators, [
        Tensor("softmax_out", scores, "heads", producer="core_attn", consumers=("core_attn",)),
        Tensor("dropout_mask", scores, "heads", 1.0, producer="core_attn", consumers=("core_attn",)),
        Tensor("dropout_out", scores, "heads", producer="core_attn", consumers=("core_attn",)),
    ]


def cross_attention(model: ModelSpec, batch: Batch, style: Style, *, unfused: bool) -> Parts:
    """Decoder queries over encoder keys and values."""
    t, e, h = batch.decoder_tokens or batch.tokens, batch.tokens, float(model.hidden_size)
    d = float(model.attention_head_dim)
    a, kv = model.num_attention_heads * d, model.kv_heads * d
    operators, tensors = norm_and_residual(model, t, style, "cross")
    operators += [
        linear("cross_q", "cross_qkv", "column", m=t, n=a, k=h, params=h * a),
        linear("cross_kv", "cross_qkv", "column", m=e, n=2 * kv, k=h, params=h * 2 * kv),
        Operator(
            name="cross_attn",
            module="core_attn",
            kind=Kind.ATTENTION,
            rule="heads",
            m=t,
            pairs=t * batch.seq_len,
            seq_len=batch.seq_len,
            heads=model.num_attention_heads,
            kv_heads=model.kv_heads,
            d_qk=d,
            d_v=d,
        ),
        linear("cross_proj", "proj", "row", m=t, n=h, k=a, params=h * a),
    ]
    tensors += [
        Tensor("cross_query", a * t, "heads", producer="cross_qkv", consumers=("core_attn",)),
        Tensor("cross_key_value", 2 * kv * e, "heads", producer="cross_qkv", consumers=("core_attn",)),
        Tensor("cross_out", a * t, "heads", producer="core_attn", consumers=("core_attn", "proj")),
    ]
    return Parts(operators, tensors, sum(op.params for op in operators))


def _latent_attention(model: ModelSpec, batch: Batch, style: Style) -> Parts:
    """Multi-head latent attention as trained: low-rank down and up projections, then ordinary attention with d 192/128.

    Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1.
    """
    t, h, heads = batch.tokens, float(model.hidden_size), float(model.num_attention_heads)
    nope, rope, dv = float(model.qk_nope_head_dim), float(model.qk_rope_head_dim), float(model.v_head_dim)
    kv_rank = float(model.kv_lora_rank or 0)
    q_rank = float(model.q_lora_rank or 0)
    d_qk = nope + rope
    operators, tensors = norm_and_residual(model, t, style, "attn")
    if q_rank:
        operators += [
            linear("q_down", "qkv", "full", m=t, n=q_rank, k=h, params=h * q_rank),
            linear(
                "q_up", "mla_up_proj", "column", m=t, n=heads * d_qk, k=q_rank, params=heads * d_qk * q_rank + q_rank
            ),
        ]
    else:
        operators.append(linear("q_proj", "qkv", "column", m=t, n=heads * d_qk, k=h, params=h * heads * d_qk))
    operators += [
        linear("kv_down", "qkv", "full", m=t, n=kv_rank + rope, k=h, params=h * (kv_rank + rope)),
        linear(
            "kv_up",
            "mla_up_proj",
            "column",
            m=t,
            n=heads * (nope + dv),
            k=kv_rank,
            params=heads * (nope + dv) * kv_rank + kv_rank,
        ),
        pointwise(
            "latent_norm_rope",
            "mla_up_proj",
            "features",
            (
                (2 * heads * (2 * d_qk + dv) + 3 * (q_rank + kv_rank)) * t * 2,
                (2 * heads * (2 * d_qk + dv) + 4 * (q_rank + kv_rank)) * t * 2,
            ),
            (5, 7),
        ),
        *_trained_indexer(model, batch),
        Operator(
            name="core_attn",
            module="core_attn",
            kind=Kind.ATTENTION,
            rule="heads",
            m=t,
            pairs=picked_pairs(batch, model.index_topk) if batch.training else batch.pairs,
            seq_len=batch.seq_len,
            heads=heads,
            kv_heads=heads,
            d_qk=d_qk,
            d_v=dv,
        ),
        linear("proj", "proj", "row", m=t, n=h, k=heads * dv, params=h * heads * dv),
    ]
    tensors += [
        Tensor("latents", 2 * (q_rank + kv_rank) * t + rope * t, "full", producer="qkv", consumers=("mla_up_proj",)),
        Tensor("query", heads * d_qk * t, "heads", producer="mla_up_proj", consumers=("core_attn",)),
        Tensor("key_value", heads * (d_qk + dv) * t, "heads", producer="mla_up_proj", consumers=("core_attn",)),
        Tensor("softmax_lse", heads * t, "heads", 4.0, producer="core_attn", consumers=("core_attn",)),
        Tensor("attention_out", heads * dv * t, "heads", producer="core_attn", consumers=("core_attn", "proj")),
    ]
    return Parts(operators, tensors, sum(op.params for op in operators))


def picked_pairs(batch: Batch, most: int) -> float:
    """Causal query-key pairs per head of which a query has at most `most`; 0: no limit."""
    if not most or most >= batch.seq_len:
        return batch.pairs
    return batch.tokens / batch.seq_len * (batch.seq_len * most - most * most / 2)


def _trained_indexer(model: ModelSpec, batch: Batch) -> list[Operator]:
    """What the indexer of sparse attention computes in training: three products, and scores of all tokens.

    Serving adds its own, with the work between (`serving.iteration.sparse_attention`).
    """
    if not (model.index_topk and batch.training):
        return []
    t, h = batch.tokens, float(model.hidden_size)
    heads, size = model.index_n_heads, model.index_head_dim
    rank = float(model.q_lora_rank or model.hidden_size)
    sizes = ((rank, float(heads * size)), (h, float(size)), (h, float(heads)))
    products = [
        linear(f"index_{i}", "qkv", "full", m=t, n=n, k=k, params=n * k + 2 * size * (i == 1))
        for i, (k, n) in enumerate(sizes)
    ]
    return [*products, index_scores(batch, (heads, size, model.index_topk))]
