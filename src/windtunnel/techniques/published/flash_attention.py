"""What `flash-attention.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.graph import Block, Kind, ModelGraph, Operator, Tensor

_SCORE_TENSORS = ("softmax_out", "dropout_mask", "dropout_out")


def _fuse(block: Block) -> Block:
    """Replace the chain from `scores` to `context` by one operator; blocks without it are unchanged."""
    names = [op.name for op in block.operators]
    if "scores" not in names:
        return block
    first, last = names.index("scores"), names.index("context")
    scores, context = block.operators[first], block.operators[last]
    tokens = next(op.m for op in block.operators if op.name == "proj")
    sequences = tokens / scores.m
    heads = scores.groups / sequences
    kv = next(t.elements for t in block.tensors if t.name == "key_value")
    seen = 1.0 if block.kind == "B" else 0.5  # bidirectional blocks have no causal mask
    fused = Operator(
        name="core_attn",
        module="core_attn",
        kind=Kind.ATTENTION,
        rule="heads",
        m=tokens,
        pairs=sequences * scores.m * scores.n * seen,
        seq_len=scores.m,
        heads=heads,
        kv_heads=kv / (2 * scores.k * tokens),
        d_qk=scores.k,
        d_v=context.n,
        element_bytes=scores.element_bytes,
    )
    lse = Tensor("softmax_lse", heads * tokens, "heads", 4.0, producer="core_attn", consumers=("core_attn",))
    tensors = [lse if t.name == "softmax_out" else t for t in block.tensors if t.name not in _SCORE_TENSORS[1:]]
    operators = (*block.operators[:first], fused, *block.operators[last + 1 :])
    return replace(block, operators=operators, tensors=tuple(tensors))


def fused(graph: ModelGraph) -> ModelGraph:
    """The graph with every unfused attention as one kernel."""
    return replace(graph, blocks={kind: _fuse(block) for kind, block in graph.blocks.items()})


def graph(graph: ModelGraph, knobs: dict[str, Any]) -> ModelGraph:
    return fused(graph)
