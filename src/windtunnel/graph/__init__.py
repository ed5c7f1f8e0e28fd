"""Operator graph of a model: blocks repeated along depth, never unrolled.

`build` is the only entry: training and serving call it with different batches.
"""

from __future__ import annotations

from collections import Counter

from windtunnel.graph.ends import embedding, head
from windtunnel.graph.families import build_block
from windtunnel.graph.operators import STYLES, Batch, Block, Kind, ModelGraph, Operator, Style, Tensor
from windtunnel.graph.predicted import PREDICTED, predicted
from windtunnel.graph.widths import widened
from windtunnel.specs.layers import letters
from windtunnel.specs.model import ModelSpec

__all__ = [
    "PREDICTED",
    "STYLES",
    "Batch",
    "Block",
    "Kind",
    "ModelGraph",
    "Operator",
    "Style",
    "Tensor",
    "build",
    "forward_flop",
]


def forward_flop(operator: Operator) -> float:
    """Floating-point operations of one forward run, unsharded (multiply and add count as two)."""
    if operator.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
        return 2.0 * operator.m * operator.n * operator.k
    if operator.kind == Kind.BATCHED_GEMM:
        return 2.0 * operator.m * operator.n * operator.k * operator.groups
    if operator.kind == Kind.ATTENTION:
        return 2.0 * operator.pairs * operator.heads * (operator.d_qk + operator.d_v)
    return operator.forward_flop


def _windowed(model: ModelSpec, kind: str, operator: Operator, batch: Batch) -> bool:
    """Whether an attention operator of a layer sees fewer pairs than full attention does."""
    by_operator = bool(model.layers or model.index_topk)
    return operator.pairs < batch.pairs if by_operator else kind in "WX"


def _full_pairs(model: ModelSpec, operator: Operator, batch: Batch) -> float:
    """Pairs of query and key of an attention operator, masked ones included."""
    if model.family != "encoder_decoder":
        return batch.full_pairs
    if operator.name == "cross_attn":
        return operator.pairs
    return operator.m * operator.seq_len


def build(
    model: ModelSpec,
    batch: Batch,
    *,
    style: Style | None = None,
    unfused_attention: bool = False,
    fused_loss: bool = False,
    padded_vocab: float | None = None,
    element_bytes: float = 2.0,
) -> ModelGraph:
    """The operator graph of a model for one batch.

    Args:
        model: architecture.
        batch: tokens, sequences and attention pairs of the call.
        style: fusion of element-wise work; absent means the fused one.
        unfused_attention: scores, softmax, dropout and context as separate kernels.
        fused_loss: cross entropy fused with the logits.
        padded_vocab: vocabulary after padding; absent means as it is.
        element_bytes: of an activation: 2, or 4 in full precision.
    """
    style = style or STYLES["fused"]
    if element_bytes == 4.0:
        style = style.full_precision()
    depth, written = model.layer_kinds(), {letter: layer for layer, letter in letters(model.layers).items()}
    blocks = {
        kind: build_block(kind, written.get(kind, ()), model, batch, style, unfused=unfused_attention)
        for kind in dict.fromkeys(depth)
    }
    if model.num_nextn_predict_layers:
        blocks[PREDICTED] = predicted(model, batch, style, blocks[depth[-1]])
    first = embedding(model, batch, style)
    last = head(model, batch, style, fused_loss=fused_loss, padded_vocab=padded_vocab or float(model.vocab_size))
    if element_bytes != 2.0:
        blocks = {kind: widened(block, element_bytes) for kind, block in blocks.items()}
        first, last = widened(first, element_bytes), widened(last, element_bytes)
    matmul, attention = 0.0, 0.0
    further = model.num_nextn_predict_layers
    for kind, layers in Counter([*depth, *[PREDICTED] * further]).items():
        for op in blocks[kind].operators:
            if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                matmul += layers * forward_flop(op)
            elif op.kind == Kind.BATCHED_GEMM:
                attention += layers * forward_flop(op)
            elif op.kind == Kind.SCAN:
                attention += layers * op.forward_flop
            elif op.kind == Kind.ATTENTION:
                attention += (
                    2.0
                    * layers
                    * op.heads
                    * (op.d_qk + op.d_v)
                    * _full_pairs(model, op, batch)
                    * (op.pairs / batch.pairs / 2 if batch.pairs and _windowed(model, kind, op, batch) else 1.0)
                )
    rows = batch.decoder_tokens if model.family == "encoder_decoder" else batch.logits_rows
    head_flop = 2.0 * (1 + further) * rows * model.vocab_size * (model.output_size or model.hidden_size)
    tokens = max(batch.tokens, 1.0)
    return ModelGraph(
        depth=depth,
        blocks=blocks,
        embedding=first,
        head=last,
        model_flop_per_token=3.0 * (matmul + attention + head_flop) / tokens,
        attention_flop_per_token=3.0 * attention / tokens,
        tied=model.tie_word_embeddings,
        further_tokens=further,
        element_bytes=element_bytes,
    )
