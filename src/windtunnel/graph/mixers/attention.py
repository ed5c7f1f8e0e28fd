"""Softmax attention: multi-head, grouped, gated, over another sequence, and through latents."""

from __future__ import annotations

from typing import Literal

from windtunnel.specs.layers import Matrix, SubBlock


def attention(
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int | tuple[int, int],
    *,
    biases: str = "",
    gate: int = 0,
    window: int = 0,
    keys: Literal["own", "earlier layer", "other sequence"] = "own",
) -> SubBlock:
    """Attention with one projection for queries, keys, values and, where it has one, its output gate.

    Args:
        hidden: width of the residual stream.
        heads: query heads.
        kv_heads: key/value heads.
        head_dim: elements of a head; two numbers where those of values differ from those of queries and keys.
        biases: letters of the projections that have one, out of `qkvo`.
        gate: width of the gate on the output.
        window: tokens attended to; 0 means all.
        keys: where keys and values come from: made by the layer of its own or of another sequence, or read from an
            earlier layer.
    """
    d_qk, d_v = head_dim if isinstance(head_dim, tuple) else (head_dim, head_dim)
    own_kv = keys != "earlier layer"
    widths = {"q": heads * d_qk, "k": kv_heads * d_qk, "v": kv_heads * d_v, "o": hidden}
    made = widths["q"] + gate + (widths["k"] + widths["v"] if own_kv else 0)
    return SubBlock(
        kind="cross_attention" if keys == "other sequence" else "attention",
        columns=((hidden, made),),
        rows=((heads * d_v, hidden),),
        vectors=sum(widths[b] for b in biases),
        heads=heads,
        kv_heads=kv_heads,
        d_qk=d_qk,
        d_v=d_v,
        window=window,
        cached_elements=kv_heads * (d_qk + d_v) if own_kv else 0,
    )


def latent_attention(
    hidden: int,
    heads: int,
    kv_rank: int,
    dims: tuple[int, int, int],
    *,
    q_rank: int = 0,
    gate: int = 0,
    indexer: tuple[int, int, int] | None = None,
    window: int = 0,
) -> SubBlock:
    """Multi-head latent attention, with an indexer that picks tokens where the layer has one.

    Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1; DeepSeek-V3.2-Exp, section 2.1, for the indexer.

    Args:
        hidden: width of the residual stream.
        heads: query heads.
        kv_rank: width of the latent that keys and values are made from.
        dims: elements of a head without position, with position, and of its values.
        q_rank: width of the queries' latent; 0 means that they have none.
        gate: width of the gate on the output.
        indexer: heads, head size and tokens picked.
        window: tokens attended to; 0 means all.
    """
    nope, rope, d_v = dims
    queries: Matrix = (q_rank or hidden, heads * (nope + rope))
    replicated = [(hidden, kv_rank + rope)] + ([(hidden, q_rank)] if q_rank else [])
    vectors = q_rank + kv_rank
    if indexer:
        index_heads, size, _ = indexer
        replicated += [(q_rank or hidden, index_heads * size), (hidden, size), (hidden, index_heads)]
        vectors += 2 * size
    return SubBlock(
        kind="attention",
        columns=(queries, (kv_rank, heads * (nope + d_v)), *([(hidden, gate)] if gate else [])),
        rows=((heads * d_v, hidden),),
        replicated=tuple(replicated),
        vectors=vectors,
        heads=heads,
        kv_heads=heads,
        d_qk=nope + rope,
        d_v=d_v,
        window=indexer[2] if indexer else window,
        cached_elements=kv_rank + rope + (indexer[1] if indexer else 0),
        kv_rank=kv_rank,
        q_rank=q_rank,
        rope_dim=rope,
        index_heads=indexer[0] if indexer else 0,
        index_dim=indexer[1] if indexer else 0,
        picked=indexer is not None,
    )
