"""Readers of Gemma 3n and of Gemma 4 with inputs to every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.graph.mixers.attention import attention
from windtunnel.graph.mixers.feed_forward import mlp
from windtunnel.importers.huggingface.network import Config
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec

_STYLE: dict[str, Any] = {"hidden_act": "gelu", "qk_norm": True, "post_norm": True}


def _layer_input(h: int, p: int) -> SubBlock:
    """The gate and projection through which a layer takes its own embedding of the token."""
    return SubBlock(kind="mlp", columns=((h, p),), rows=((p, h),), vectors=h, gated=False)


def _layer_tables(c: Config, h: int, depth: int, p: int) -> int:
    """Embeddings of every layer, their projection from the residual stream, and its norm."""
    return c.number("vocab_size_per_layer_input", 262144) * depth * p + h * depth * p + p


def gemma_3n(c: Config) -> ModelSpec:
    """Gemma 3n: alternating updates of several streams, low-rank residuals, inputs to every layer, shared keys."""
    c = c.part("text_config") if "text_config" in c.fields else c
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    n, p, rank = (
        c.number("altup_num_inputs", 4),
        c.number("hidden_size_per_layer_input", 256),
        c.number("laurel_rank", 64),
    )
    size, kv_heads = c.number("head_dim", 256), c.number("num_key_value_heads", 2)
    own = depth - c.number("num_kv_shared_layers", 0)
    widths = c.fields.get("intermediate_size")
    widths = widths if isinstance(widths, list) and len(widths) == depth else [c.need("intermediate_size")] * depth
    streams = SubBlock(
        kind="projection",
        replicated=((h, n), (n, n), (n, n * n), (h, rank), (rank, h)),
        vectors=3 * h,
    )
    layers = []
    for i, kind in enumerate(c.kinds("layer_types", depth)):
        window = c.number("sliding_window", 512) if kind == "sliding_attention" else 0
        mixer = attention(h, heads, kv_heads, size, window=window, keys="own" if i < own else "earlier layer")
        mixer = mixer.plus(2 * h + size * (2 if i < own else 1))
        layers.append((streams, mixer, mlp(h, widths[i]).plus(2 * h), _layer_input(h, p)))
    v = c.need("vocab_size")
    inputs = v * h + _layer_tables(c, h, depth, p) + (n - 1) * h * h
    return c.compose(layers, hidden=h, vocab=v, tied=True, inputs=inputs, outputs=(n - 1) * h * h + h, **_STYLE)


def gemma_4(c: Config) -> ModelSpec:
    """Gemma 4 with inputs to every layer, or keys of earlier layers: windows, and heads of two sizes."""
    c = c.part("text_config") if "text_config" in c.fields else c
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    p, own = c.number("hidden_size_per_layer_input", 0), depth - c.number("num_kv_shared_layers", 0)
    changed = c.fields.get("per_layer_config")
    changed = changed if isinstance(changed, Mapping) else {}
    layers = []
    for i, kind in enumerate(c.kinds("layer_types", depth)):
        full = kind == "full_attention"
        size = c.number("global_head_dim", c.number("head_dim", 256)) if full else c.number("head_dim", 256)
        kv_heads = c.number("num_key_value_heads", heads)
        if full:
            kv_heads = c.number("num_global_key_value_heads", kv_heads)
        at = changed.get(f"{i:02d}", changed.get(str(i)))
        if isinstance(at, Mapping):
            size, kv_heads = at.get("head_dim", size), at.get("num_key_value_heads", kv_heads)
        window = 0 if full else c.number("sliding_window", 512)
        mixer = attention(h, heads, kv_heads, size, window=window, keys="own" if i < own else "earlier layer")
        width = c.need("intermediate_size") * (2 if i >= own and c.flag("use_double_wide_mlp") else 1)
        mixer = mixer.plus(2 * h + size * (2 if i < own else 1))
        layers.append((mixer, mlp(h, width).plus(2 * h), *((_layer_input(h, p),) if p else ())))
    v = c.need("vocab_size")
    inputs = v * h + (_layer_tables(c, h, depth, p) if p else 0)
    return c.compose(layers, hidden=h, vocab=v, tied=True, inputs=inputs, **_STYLE)
