"""Readers of Inkling: attention with relative positions, short convolutions on keys, values and branches, mixtures."""

from __future__ import annotations

from windtunnel.graph.mixers.attention import attention
from windtunnel.importers.huggingface.network import Config
from windtunnel.importers.huggingface.parts import feed_forward_layers
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec


def _attention(c: Config, h: int, kind: str) -> SubBlock:
    """Attention of a layer, in a window or not, with its relative positions and convolutions."""
    windowed = kind == "hybrid_sliding"
    of = "swa_" if windowed else ""
    heads, size = c.need(f"{of}num_attention_heads"), c.need(f"{of}head_dim")
    kv_heads = c.need(f"{of}num_key_value_heads")
    window = c.need("sliding_window_size") if windowed else 0
    relative, taps = c.need("d_rel"), c.need("conv_kernel_size")
    reach = window if windowed else c.need("rel_extent")
    mixer = attention(h, heads, kv_heads, size, window=window)
    convolved = 2 * kv_heads * size + h
    return mixer.model_copy(
        update={
            "replicated": ((relative, reach),),
            "columns": (*mixer.columns, (h, heads * relative)),
            "vectors": h + 2 * size + taps * convolved,
            "convolved": convolved,
            "taps": taps,
        }
    )


def inkling(c: Config) -> ModelSpec:
    """Inkling: windowed and full attention with key/value heads of their own, shared experts as sinks of the router."""
    h, depth = c.need("hidden_size"), c.need("num_hidden_layers")
    taps, sinks = c.need("conv_kernel_size"), c.number("n_shared_experts", 0)
    kinds = c.kinds("layer_types", depth)
    made = {kind: _attention(c, h, kind) for kind in dict.fromkeys(kinds)}
    networks = []
    for network in feed_forward_layers(c, h, depth):
        router = {"replicated": ((h, network.experts + sinks),)} if network.experts else {}
        own = {"vectors": network.vectors + h + taps * h, "convolved": h, "taps": taps}
        networks.append(network.model_copy(update=router | own))
    layers = [(made[kind], network) for kind, network in zip(kinds, networks, strict=True)]
    v = c.need("vocab_size")
    return c.compose(
        layers,
        hidden=h,
        vocab=v,
        tied=c.flag("tie_word_embeddings"),
        inputs=v * h + h,
        qk_norm=True,
        position_embedding="relative",
    )


def inkling_2(c: Config) -> ModelSpec:
    """Inkling 2: the same with a gate on attention's output, sinks, and residuals chosen among earlier layers."""
    h, depth, taps = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("conv_kernel_size")
    kinds = c.kinds("layer_types", depth)
    made = {}
    for kind in dict.fromkeys(kinds):
        mixer = _attention(c, h, kind)
        _, relative = mixer.columns
        gated = (h, mixer.columns[0][1] + mixer.heads * mixer.d_v)
        reach = c.need("rel_extent")
        made[kind] = mixer.model_copy(
            update={
                "columns": (gated, relative, (h, mixer.heads)),
                "replicated": ((c.need("d_rel"), reach),),
                "vectors": mixer.vectors + h + mixer.heads * (mixer.d_qk + c.need("d_rel")) - 2 * mixer.d_qk,
            }
        )
    networks = [
        network.model_copy(update={"vectors": network.vectors + 2 * h + taps * h, "convolved": h, "taps": taps})
        for network in feed_forward_layers(c, h, depth)
    ]
    layers = [(made[kind], network) for kind, network in zip(kinds, networks, strict=True)]
    v = c.need("vocab_size")
    return c.compose(
        layers,
        hidden=h,
        vocab=v,
        tied=c.flag("tie_word_embeddings"),
        inputs=v * h + h,
        position_embedding="relative",
    )
