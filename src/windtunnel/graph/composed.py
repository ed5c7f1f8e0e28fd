"""Operators of layers that a model writes one by one (`ModelSpec.layers`): one builder for every kind of sub-block.

Products follow from the matrices of a sub-block; what lies between them is that of flat models (`graph.attention`,
`graph.mlp`, `graph.recurrent`) at the dimensions of the sub-block. Weights are counted exactly: what is in no matrix
stands with the sub-block's norm.
"""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph.attention import (
    Parts,
    core_attention,
    moved_bytes,
    norm_and_residual,
    picked_pairs,
    rotation_passes,
)
from windtunnel.graph.indexer import index_scores, index_work
from windtunnel.graph.mlp import moe_mlp
from windtunnel.graph.operators import Batch, Kind, Operator, Style, Tensor, linear, pointwise
from windtunnel.graph.recurrent import Between, Scan, decayed_sum, delta_rule, elementwise_scan, state_space
from windtunnel.specs.layers import Matrix, SubBlock
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
_SCANS = {
    "state_space": state_space,
    "delta": delta_rule,
    "decayed": decayed_sum,
    "elementwise": elementwise_scan,
}


def sub_block(block: SubBlock, model: ModelSpec, batch: Batch, style: Style, *, unfused: bool) -> Parts:
    """One sub-block of a layer; `unfused`: whether scores, softmax and context are separate kernels."""
    if block.kind == "mixture":
        return _mixture(block, model, batch, style)
    t = batch.tokens
    norm, first, last = _NAMES[block.kind]
    operators, tensors = norm_and_residual(model, t, style, norm)
    operators[0] = replace(operators[0], params=float(block.vectors))
    norms = len(tensors)
    operators += _inner_products(block, first, t)
    if block.experts:  # of a mixer: routed tokens through the first product and the last (JetMoE)
        operators.append(_routed(f"{first}_experts", first, "column", block, block.expert_columns, t))
    core, kept = _between(block, model, batch, style, unfused=unfused)
    operators += core
    if block.experts:
        operators.append(_routed(f"{last}_experts", last, "row", block, block.expert_rows, t))
    end = len(block.rows) - 1
    operators += [_product(last if i == end else f"{last}_{i}", last, "row", t, m) for i, m in enumerate(block.rows)]
    tensors += kept
    if block.parallel:  # reads the norm of the sub-block before it and adds to the same residual
        operators[1] = replace(operators[1], params=operators[1].params + block.vectors)
        operators, tensors = operators[1:], tensors[norms:]
    if block.reuses_weights:
        operators = [replace(op, params=0.0) for op in operators]
    return Parts(operators, tensors, sum(op.params for op in operators))


def _inner_products(block: SubBlock, first: str, tokens: float) -> list[Operator]:
    """Products in front of what lies between: those that every rank computes, and those that the tensor axis cuts."""
    if block.kv_rank:
        return _latent_products(block, tokens)
    shared = [_product(f"{first}_shared_{i}", first, "full", tokens, m) for i, m in enumerate(block.replicated)]
    cut = [
        _product(first if i == 0 else f"{first}_{i}", first, "column", tokens, m) for i, m in enumerate(block.columns)
    ]
    return shared + cut


def _latent_products(block: SubBlock, tokens: float) -> list[Operator]:
    """Products of latent attention: down to the latents and up to the heads, a gate, and those of an indexer."""
    queries, values, *gates = block.columns
    shared, operators = list(block.replicated), []

    def product(name: str, module: str, rule: str, matrix: Matrix) -> Operator:
        return replace(_product(name, "qkv", rule, tokens, matrix), module=module)

    down = shared.pop(0)
    if block.q_rank:
        operators.append(product("q_down", "qkv", "full", shared.pop(0)))
        operators.append(product("q_up", "mla_up_proj", "column", queries))
    else:
        operators.append(product("q_proj", "qkv", "column", queries))
    operators.append(product("kv_down", "qkv", "full", down))
    operators.append(product("kv_up", "mla_up_proj", "column", values))
    operators += [product(f"attn_gate_{i}", "qkv", "column", gate) for i, gate in enumerate(gates)]
    return operators + [product(f"index_{i}", "qkv", "full", matrix) for i, matrix in enumerate(shared)]


def _product(name: str, role: str, rule: str, tokens: float, matrix: Matrix) -> Operator:
    k, n = float(matrix[0]), float(matrix[1])
    return linear(name, _MODULES[role], rule, m=tokens, n=n, k=k, params=n * k)  # type: ignore[arg-type]


def _routed(name: str, role: str, rule: str, block: SubBlock, matrix: Matrix, tokens: float) -> Operator:
    """A product of each token with the matrices of all experts that it is sent to; the tensor axis divides them."""
    chosen = float(block.experts_per_token)
    product = _product(name, role, rule, tokens, matrix)
    wide = replace(product, n=product.n * chosen) if rule == "column" else replace(product, k=product.k * chosen)
    return replace(wide, params=product.params * block.experts)


def _between(block: SubBlock, model: ModelSpec, batch: Batch, style: Style, *, unfused: bool) -> Between:
    """Operators between the products of a sub-block, and what it keeps."""
    if block.kind in ("attention", "cross_attention"):
        return _attention(block, model, batch, style, unfused=unfused)
    if block.kind in ("scan", "convolution"):
        return _scan(block, batch)
    t = batch.tokens
    made = sum(m[1] for m in block.columns) * t
    width = float(block.rows[-1][0] if block.rows else 0)
    act = style.activation_gated if block.gated else style.activation_plain
    moved = width * t * 2
    tensors = [
        Tensor("fc1_out", made, "column", producer="fc1", consumers=("mlp_act",)),
        Tensor("act_out", width * t, "column", producer="mlp_act", consumers=("fc2",)),
    ]
    if style.saves_gate and block.gated:
        kept = style.saves_gate * width * t
        tensors.append(Tensor("gate_out", kept, "column", producer="mlp_act", consumers=("mlp_act",)))
    return [pointwise("mlp_act", "mlp_act", "features", moved_bytes(act, moved), (1, 1))], tensors


def _attended_pairs(block: SubBlock, batch: Batch) -> float:
    """Query-key pairs per head over the micro-batch."""
    if block.kind == "cross_attention" or not block.causal:
        return batch.full_pairs
    pairs = picked_pairs(batch, block.window)
    return pairs + (batch.pairs / block.compression if block.compression and not block.index_heads else 0.0)


def _attention(block: SubBlock, model: ModelSpec, batch: Batch, style: Style, *, unfused: bool) -> Between:
    """Rotation, core attention and, where the first product makes one, the gate of its output."""
    t, cross, pairs = batch.tokens, block.kind == "cross_attention", _attended_pairs(block, batch)
    a, kv = float(block.heads * block.d_qk), float(block.kv_heads * block.d_qk)
    made = kv + block.kv_heads * block.d_v if block.cached_elements else 0.0
    producer = "mla_up_proj" if block.kv_rank else "cross_qkv" if cross else "qkv"
    core, lse = core_attention(batch, style, block.heads, block.kv_heads, block.d_qk, block.d_v, pairs, unfused=unfused)
    if cross:
        core = [replace(op, name="cross_attn") if op.kind == Kind.ATTENTION else op for op in core]
    tensors = [
        Tensor("query", a * t, "heads", producer=producer, consumers=("core_attn",)),
        Tensor("key_value", made * t, "heads", producer=producer, consumers=("core_attn",)),
    ]
    operators = _latent_work(block, t) if block.kv_rank else _rotation(block, model, style, t)
    if block.kv_rank:
        latents = 2 * (block.q_rank + block.kv_rank) * t + block.rope_dim * t
        tensors.insert(0, Tensor("latents", latents, "full", producer="qkv", consumers=("mla_up_proj",)))
    elif style.expands_kv and a > kv:
        tensors.append(Tensor("key_value_copies", 2 * (a - kv) * t, "heads", producer="rope", consumers=("core_attn",)))
    if block.index_heads:
        scale = (block.index_heads, block.index_dim, block.window)
        scores = index_scores(batch, scale)
        scores = replace(scores, pairs=scores.pairs / max(block.compression, 1))
        operators += [scores] if batch.training else index_work(t, *scale)
    out = block.heads * block.d_v * t
    tensors += lse
    tensors.append(Tensor("attention_out", out, "heads", producer="core_attn", consumers=("core_attn", "proj")))
    gate = _gate_width(block)
    if gate:
        moved = moved_bytes(style.activation_gated, float(out) * 2)
        core = [*core, pointwise("attn_gating", "core_attn", "features", moved, (1, 1))]
        tensors.append(Tensor("attn_gate_out", gate * t, "heads", producer="qkv", consumers=("core_attn",)))
    return [*operators, *core], tensors


def _gate_width(block: SubBlock) -> int:
    """Outputs of the first products beyond queries, keys and values: the gate of what attention gives."""
    if block.kv_rank:
        return sum(m[1] for m in block.columns[2:])
    made = block.heads * block.d_qk + (block.kv_heads * (block.d_qk + block.d_v) if block.cached_elements else 0)
    return max(block.columns[0][1] - made, 0) if len(block.columns) == 1 and not block.experts else 0


def _rotation(block: SubBlock, model: ModelSpec, style: Style, tokens: float) -> list[Operator]:
    """Split of the packed projection, rotation of queries and keys and their norms."""
    if block.kind == "cross_attention":
        return []
    a, kv = block.heads * block.d_qk, block.kv_heads * block.d_qk
    made = (kv + block.kv_heads * block.d_v) if block.cached_elements else 0
    operators = []
    if style.qkv_split[0]:
        moved = moved_bytes(style.qkv_split, (a + made) * tokens * 2)
        operators.append(pointwise("qkv_split", "qkv", "features", moved, (3, 3)))
    passes = rotation_passes(model, style)
    if passes[0]:
        rotated = a + (kv if block.cached_elements else 0)
        operators.append(pointwise("rope", "rope", "features", moved_bytes(passes, rotated * tokens * 2), (1, 1)))
    return operators


def _latent_work(block: SubBlock, tokens: float) -> list[Operator]:
    """Norms of the latents, rotation, and the heads put together."""
    heads = 2 * block.heads * (2 * block.d_qk + block.d_v)
    latents = block.q_rank + block.kv_rank
    moved = ((heads + 3 * latents) * tokens * 2, (heads + 4 * latents) * tokens * 2)
    return [pointwise("latent_norm_rope", "mla_up_proj", "features", moved, (5, 7))]


def _scan(block: SubBlock, batch: Batch) -> Between:
    """A short convolution and a scan; a sub-block of kind `convolution` has the convolution alone."""
    width = float(block.rows[-1][0] if block.rows else block.heads * block.d_v)
    scan = Scan(
        tokens=batch.tokens,
        seq_len=batch.seq_len,
        heads=width / max(block.d_v, 1),
        d_qk=float(block.d_qk),
        d_v=float(max(block.d_v, 1)),
        chunk=float(block.chunk),
        groups=float(block.groups),
        convolved=float(block.convolved),
    )
    made = sum(m[1] for m in block.columns) * batch.tokens
    first = Tensor("in_proj_out", made, "column", producer="qkv", consumers=("mamba",))
    if block.kind == "convolution":
        out = Tensor("gated_out", width * batch.tokens, "column", producer="mamba", consumers=("proj",))
        return [scan.convolution(3, 5)], [first, out]
    operators, kept = _SCANS[block.scan](scan)
    return operators, [first, *kept]


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
    inner = float(block.expert_columns[0])
    operators: list[Operator] = []
    for op in part.operators:
        if op.name == "router":
            operators += _routers(op, block, inner)
        elif op.kind == Kind.GROUPED_GEMM:
            operators.append(_in_latent(op, inner))
        else:
            operators.append(op)
    expert_params = sum(op.params for op in operators if op.kind == Kind.GROUPED_GEMM)
    rest = block.weights(block.experts) - sum(op.params for op in operators[1:])
    operators[0] = replace(operators[0], params=max(rest, 0.0))
    return Parts(operators, part.tensors, sum(op.params for op in operators), expert_params)


def _in_latent(experts: Operator, width: float) -> Operator:
    """A product of experts that read and write tokens of another width than the residual stream's."""
    first = experts.name == "expert_fc1"
    k, n = (width, experts.n) if first else (experts.k, width)
    return replace(experts, k=k, n=n, params=experts.groups * k * n)


def _routers(router: Operator, block: SubBlock, inner: float) -> list[Operator]:
    """Products that every token goes through before experts: the router's, and those to their width and back."""
    out = []
    for i, (k, n) in enumerate(block.replicated):
        op = replace(router, name="router" if i == 0 else f"router_{i}", k=float(k), n=float(n), params=float(k * n))
        latent = i > 0 and inner in (k, n) and inner != block.replicated[0][0]
        out.append(replace(op, name=f"latent_{i}", number_class="linear") if latent else op)
    return out
