"""The indexer of sparse attention: a few small heads that score every token before a query (DeepSeek-V3.2, GLM-5).

Source: DeepSeek-V3.2-Exp report, section 2 (lightning indexer, token selection).
"""

from __future__ import annotations

from windtunnel.graph.operators import Batch, Kind, Operator

Indexer = tuple[int, int, int]
"""Heads, elements of a key, tokens that are picked."""


def index_scores(batch: Batch, indexer: Indexer) -> Operator:
    """Scores of all tokens before each query, as attention without values; every rank of the tensor axis has them."""
    heads, size, _ = indexer
    return Operator(
        name="index_scores",
        module="core_attn",
        kind=Kind.ATTENTION,
        rule="full",
        m=batch.tokens,
        pairs=batch.pairs,
        seq_len=batch.seq_len,
        heads=float(heads),
        kv_heads=1.0,
        d_qk=float(size),
    )


def index_work(tokens: float, heads: int, size: int, picked: int) -> list[Operator]:
    """Element-wise work of an indexer while tokens are served.

    Norm and rotary part of the key, rotation and cast of queries and keys, the write of the key, the scores' launch and
    the selection's.

    Args:
        tokens: that are computed.
        heads: of the indexer.
        size: elements of a key.
        picked: tokens that attention then reads.
    """
    wide = float(heads * size)
    elements = {
        "index_norm_rope": 3.0 * (wide + size),
        "index_rotate": 2.0 * (wide + size),
        "index_cast": 1.5 * (wide + size),
        "index_store": float(size),
        "index_scores": 0.0,
        "index_select": 4.0 * picked,
    }
    return [
        Operator(name=name, module="qkv", kind=Kind.POINTWISE, rule="full", forward_bytes=2.0 * x * tokens)
        for name, x in elements.items()
    ]
