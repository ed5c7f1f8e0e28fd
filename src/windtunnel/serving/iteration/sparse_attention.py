"""Sparse attention by an indexer (DeepSeek-V3.2, GLM-5): a light scorer picks the tokens that attention then reads.

Every query scores every token before it with a few small heads over keys of their own, kept in 8 bits next to the
latents; attention reads the `index_topk` best ones. Source: DeepSeek-V3.2-Exp report, section 2 (lightning indexer,
token selection); sizes are the model's `index_n_heads`, `index_head_dim`, `index_topk`.
"""

from __future__ import annotations

from windtunnel.graph import Kind, Operator
from windtunnel.graph.indexer import index_work
from windtunnel.specs.model import ModelSpec

SCALE_BYTES = 4.0
"""One scale a key (SGLang nsa/index_buf_accessor.py: 128 bytes of key, 4 of scale)."""
SCORE_BYTES = 12.0
"""A score is written in fp32, read by the selection and read again for its threshold."""


def key_bytes(model: ModelSpec) -> float:
    """Bytes per token that one layer's indexer keeps; every tensor rank has them all."""
    return model.index_head_dim + SCALE_BYTES if model.index_topk else 0.0


def pair_flop(model: ModelSpec) -> float:
    """FLOPs of one score, 8 bit."""
    return 2.0 * model.index_n_heads * model.index_head_dim


def operators(model: ModelSpec) -> list[Operator]:
    """What the indexer computes for one token next to the scores: three projections, and what comes between.

    Ranks of the tensor axis repeat it (SGLang, vLLM: replicated projections). Between: norm and rotary part of the key,
    rotation and cast of queries and keys, the write of the key, the scores' launch and the selection's.
    """
    if not model.index_topk:
        return []
    h, heads, d = float(model.hidden_size), float(model.index_n_heads), float(model.index_head_dim)
    q = float(model.q_lora_rank or model.hidden_size)

    def product(name: str, n: float, k: float, number_class: str) -> Operator:
        return Operator(
            name=name,
            module="qkv",
            kind=Kind.GEMM,
            rule="full",
            m=1.0,
            n=n,
            k=k,
            params=n * k,
            number_class=number_class,  # type: ignore[arg-type]
        )

    return [
        product("index_q", heads * d, q, "linear"),
        product("index_k", d, h, "linear"),
        product("index_w", heads, h, "bf16"),
        *index_work(1.0, model.index_n_heads, model.index_head_dim, model.index_topk),
    ]
