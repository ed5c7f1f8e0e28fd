"""Operators of layers that a model writes one by one (`ModelSpec.layers`): one builder for every kind of sub-block.

Products follow from the matrices of a sub-block; what lies between them from its kind. Weights are counted exactly:
what is in no matrix stands with the sub-block's norm.
"""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph.attention import Parts, norm_and_residual
from windtunnel.graph.mlp import moe_mlp
from windtunnel.graph.operators import Batch, Block, Kind, Operator, Style, Tensor, linear, pointwise
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec

_NAMES = {
    "attention": ("attn", "qkv", "proj"),
    "cross_attention": ("cross", "cross_q", "cross_proj"),
    "scan": ("attn", "in_proj", "out_proj"),
    "convolution": ("attn", "in_proj", "out_proj"),
    "mlp": ("mlp", "fc1", "fc2"),
    "mixture": ("mlp", "fc1", "fc2"),
    "projection": ("mlp", "fc1", "fc2"),
}
"""Kind of sub-block → name of its norm, of its first product and of its last: what passes of the plan look for."""
_MODULES = {
    "qkv": "qkv",
    "cross_q": "cross_qkv",
    "in_proj": "qkv",
    "fc1": "fc1",
    "proj": "proj",
    "cross_proj": "proj",
    "out_proj": "proj",
    "fc2": "fc2",
}


def composed_block(kind: str, model: ModelSpec, batch: Batch, style: Style) -> Block:
    """One layer of the letter `kind`."""
    parts = [_sub_block(block, model, batch, style) for block in model.layer_of(kind)]
    operators = tuple(op for part in parts for op in part.operators)
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    return Block(kind, operators, tensors, sum(p.params for p in parts), sum(p.expert_params for p in parts))


def _sub_block(block: SubBlock, model: ModelSpec, batch: Batch, style: Style) -> Parts:
    if block.kind == "mixture":
        return _mixture(block, model, batch, style)
    t = batch.tokens
    norm, first, last = _NAMES[block.kind]
    operators, tensors = norm_and_residual(model, t, style, norm)
    operators[0] = replace(operators[0], params=float(block.vectors))
    norms = len(tensors)
    operators += [_product(f"{first}_shared_{i}", first, "full", t, m) for i, m in enumerate(block.replicated)]
    operators += [
        _product(first if i == 0 else f"{first}_{i}", first, "column", t, m) for i, m in enumerate(block.columns)
    ]
    if block.experts:  # of a mixer: routed tokens through the first product and the last (JetMoE)
        operators.append(_routed(f"{first}_experts", first, "column", block, block.expert_columns, t))
    core, kept = _between(block, batch, style)
    operators += core
    if block.experts:
        operators.append(_routed(f"{last}_experts", last, "row", block, block.expert_rows, t))
    end = len(block.rows) - 1
    operators += [_product(last if i == end else f"{last}_{i}", last, "row", t, m) for i, m in enumerate(block.rows)]
    made = sum(m[1] for m in block.columns) * t
    tensors.append(Tensor(f"{first}_out", made, "column", producer=_MODULES[first], consumers=(_core_module(block),)))
    tensors += kept
    if block.parallel:  # reads the norm of the sub-block before it and adds to the same residual
        operators[1] = replace(operators[1], params=operators[1].params + block.vectors)
        operators, tensors = operators[1:], tensors[norms:]
    if block.reuses_weights:
        operators = [replace(op, params=0.0) for op in operators]
    return Parts(operators, tensors, sum(op.params for op in operators))


def _product(name: str, role: str, rule: str, tokens: float, matrix: tuple[int, int]) -> Operator:
    k, n = float(matrix[0]), float(matrix[1])
    return linear(name, _MODULES[role], rule, m=tokens, n=n, k=k, params=n * k)  # type: ignore[arg-type]


def _routed(name: str, role: str, rule: str, block: SubBlock, matrix: tuple[int, int], tokens: float) -> Operator:
    """A product of each token with the matrices of the experts it is sent to; the tensor axis divides all of them."""
    product = _product(name, role, rule, tokens * block.experts_per_token, matrix)
    return replace(product, params=product.params * block.experts)


def _core_module(block: SubBlock) -> str:
    if block.kind in ("attention", "cross_attention"):
        return "core_attn"
    return "mamba" if block.kind in ("scan", "convolution") else "mlp_act"


def _between(block: SubBlock, batch: Batch, style: Style) -> tuple[list[Operator], list[Tensor]]:
    """Operators between the products of a sub-block, and what they keep."""
    t = batch.tokens
    module = _core_module(block)
    width = float(block.rows[-1][0] if block.rows else block.heads * block.d_v)
    out = Tensor(f"{module}_out", width * t, "column", producer=module, consumers=(_MODULES[_NAMES[block.kind][2]],))
    if module == "core_attn":
        lse = Tensor("softmax_lse", block.heads * t, "heads", 4.0, producer=module, consumers=(module,))
        return [_attention(block, batch)], [lse, out]
    if module == "mamba":
        return _scan(block, batch), [out]
    act = style.activation_gated if block.gated else style.activation_plain
    return [pointwise("mlp_act", module, "features", (act[0] * width * t * 2, act[1] * width * t * 2), (1, 1))], [out]


def _attention(block: SubBlock, batch: Batch) -> Operator:
    pairs, w = batch.pairs if block.causal else batch.full_pairs, float(block.window)
    if block.kind == "cross_attention":
        pairs = batch.full_pairs
    elif w and w < batch.seq_len:
        pairs = batch.tokens / batch.seq_len * (batch.seq_len * w - w * w / 2)
    return Operator(
        name="cross_attn" if block.kind == "cross_attention" else "core_attn",
        module="core_attn",
        kind=Kind.ATTENTION,
        rule="heads",
        m=batch.tokens,
        pairs=pairs,
        seq_len=batch.seq_len,
        heads=block.heads,
        kv_heads=block.kv_heads,
        d_qk=block.d_qk,
        d_v=block.d_v,
    )


def _scan(block: SubBlock, batch: Batch) -> list[Operator]:
    """A short convolution and a chunked scan; a sub-block of kind `convolution` has the convolution alone.

    FLOPs of the scan per token and head: scores and values inside a chunk c·(d_k + d_v), state 4·d_k·d_v.
    Source: Dao and Gu 2024 (arXiv 2405.21060), section 6; Yang et al. 2024 (arXiv 2412.06464), section 3.3.
    """
    t = batch.tokens
    made = float(sum(m[1] for m in block.columns[:1]))
    operators = [pointwise("conv1d", "mamba", "features", (3 * made * t * 2, 5 * made * t * 2), (1.0, 2.0))]
    if block.kind == "convolution":
        return operators
    heads, dk, dv = float(block.heads), float(block.d_qk), float(block.d_v)
    c = float(block.chunk) if block.chunk > 1 else 0.0
    width = float(block.rows[-1][0])
    operators.append(
        Operator(
            name="scan",
            module="mamba",
            kind=Kind.SCAN,
            rule="heads",
            m=t,
            forward_flop=t * heads * (c * (dk + dv) + 4 * dk * dv),
            forward_bytes=6 * width * t * 2,
            backward_bytes=14 * width * t * 2,
            seq_len=batch.seq_len,
            forward_kernels=5,
            backward_kernels=10,
            heads=heads,
            d_qk=dk,
            d_v=dv,
        )
    )
    operators.append(pointwise("gated_norm", "mamba", "features", (4 * width * t * 2, 6 * width * t * 2), (1.0, 2.0)))
    return operators


def _mixture(block: SubBlock, model: ModelSpec, batch: Batch, style: Style) -> Parts:
    """The mixture of flat models, at the dimensions of this layer."""
    flat = model.model_copy(
        update={
            "num_experts": block.experts,
            "num_experts_per_tok": block.experts_per_token,
            "moe_intermediate_size": block.expert_rows[0],
            "n_shared_experts": 0,
            "shared_expert_intermediate_size": block.rows[0][0] if block.rows else 0,
            "gated_mlp": block.gated,
            "mlp_bias": False,
        }
    )
    part = moe_mlp(flat, batch, style)
    operators = list(part.operators)
    rest = block.weights(block.experts) - sum(op.params for op in operators[1:])
    operators[0] = replace(operators[0], params=max(rest, 0.0))
    return Parts(operators, part.tensors, sum(op.params for op in operators), part.expert_params)
