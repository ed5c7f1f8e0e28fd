"""Readers of recurrent networks and of short convolutions: RecurrentGemma, RWKV, xLSTM, LFM2 and LFM3."""

from __future__ import annotations

from itertools import cycle, islice

from windtunnel.graph.mixers.attention import attention
from windtunnel.graph.mixers.feed_forward import mixture, mlp
from windtunnel.graph.mixers.recurrent import mlstm, rg_lru, rwkv_channel_mix, rwkv_time_mix, short_convolution
from windtunnel.importers.huggingface.network import Config
from windtunnel.specs.model import ModelSpec


def recurrent_gemma(c: Config) -> ModelSpec:
    """RecurrentGemma: gated linear recurrences and local attention by a repeated pattern."""
    h, heads = c.need("hidden_size"), c.need("num_attention_heads")
    width = c.number("lru_width", h)
    pattern = c.fields.get("block_types") or c.fields.get("_block_types") or ["recurrent", "recurrent", "attention"]
    biases = "qkvo" if c.flag("attention_bias") else "o"
    mixers = {
        "recurrent": rg_lru(h, width, heads, conv=c.number("conv1d_width", 4)).plus(h),
        "attention": attention(
            h,
            heads,
            c.number("num_key_value_heads", heads),
            c.number("head_dim", h // heads),
            biases=biases,
            window=c.number("attention_window_size", 2048),
        ).plus(h),
    }
    network = mlp(h, c.need("intermediate_size") // 2, bias=True).plus(h)
    kinds = islice(cycle(pattern), c.need("num_hidden_layers"))
    layers = [(mixers["attention" if kind == "attention" else "recurrent"], network) for kind in kinds]
    tied = c.flag("tie_word_embeddings", True)
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=tied, hidden_act="gelu")


def rwkv(c: Config) -> ModelSpec:
    """RWKV-4: time mixing and channel mixing."""
    h, v = c.need("hidden_size"), c.need("vocab_size")
    mixer = rwkv_time_mix(h, c.number("attention_hidden_size", h)).plus(2 * h)
    channel = rwkv_channel_mix(h, c.number("intermediate_size", 4 * h)).plus(2 * h)
    tied = c.flag("tie_word_embeddings")
    layers = [(mixer, channel)] * c.need("num_hidden_layers")
    return c.compose(
        layers, hidden=h, vocab=v, tied=tied, inputs=v * h + 2 * h, norm="layernorm", position_embedding="none"
    )


def xlstm(c: Config) -> ModelSpec:
    """The xLSTM 7B: matrix LSTMs, each followed by a gated network."""
    h, heads = c.need("hidden_size", "embedding_dim"), c.need("num_heads")
    factors = {name: c.fields.get(name) for name in ("qk_dim_factor", "v_dim_factor", "ffn_proj_factor")}
    keys = int(h * float(factors["qk_dim_factor"] or 0.5))
    values = int(h * float(factors["v_dim_factor"] or 1.0))
    step = c.number("ffn_round_up_to_multiple_of", 64)
    width = -(-int(h * float(factors["ffn_proj_factor"] or 2.667)) // step) * step
    layer = (
        mlstm(h, heads, keys, values, bias=c.flag("use_bias")).plus(h),
        mlp(h, width, bias=c.flag("use_bias")).plus(h),
    )
    layers = [layer] * c.need("num_hidden_layers", "num_blocks")
    tied = c.flag("tie_word_embeddings")
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=tied, position_embedding="none")


def lfm2(c: Config) -> ModelSpec:
    """LFM2: short convolutions and grouped attention; the width that the file gives is cut to two thirds."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    width = c.need("intermediate_size", "block_ff_dim")
    if c.flag("block_auto_adjust_ff_dim", True):
        step, times = c.number("block_multiple_of", 256), c.fields.get("block_ffn_dim_multiplier")
        width = int(float(1.0 if times is None else times) * int(2 * width / 3))
        width = -(-width // step) * step
    attended = c.fields.get("full_attn_idxs")
    usual = None
    if isinstance(attended, list):
        usual = ["full_attention" if i in attended else "conv" for i in range(depth)]
    size = h // heads
    mixers = (
        short_convolution(h, c.number("conv_L_cache", 3), bias=c.flag("conv_bias")).plus(h),
        attention(h, heads, c.number("num_key_value_heads", heads), size).plus(2 * size + h),
    )
    network = mlp(h, width).plus(h)
    layers = [(mixers[kind == "full_attention"], network) for kind in c.kinds("layer_types", depth, usual)]
    tied = c.flag("tie_word_embeddings", c.flag("tie_embedding", True))
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=tied, qk_norm=True)


def lfm2_moe(c: Config) -> ModelSpec:
    """LFM2 with mixtures: short convolutions and grouped attention; the first layers are dense."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    size, first = h // heads, c.number("num_dense_layers", 2)
    mixers = (
        short_convolution(h, c.number("conv_L_cache", 3), bias=c.flag("conv_bias")).plus(h),
        attention(h, heads, c.number("num_key_value_heads", heads), size).plus(2 * size + h),
    )
    dense = mlp(h, c.need("intermediate_size")).plus(h)
    routed = mixture(h, c.need("num_experts"), c.need("num_experts_per_tok"), c.need("moe_intermediate_size")).plus(h)
    kinds = c.kinds("layer_types", depth)
    layers = [(mixers[kind == "full_attention"], dense if i < first else routed) for i, kind in enumerate(kinds)]
    tied = c.flag("tie_word_embeddings", c.flag("tie_embedding", True))
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=tied, qk_norm=True)


def lfm3(c: Config) -> ModelSpec:
    """LFM3: short convolutions, full and windowed attention with a gate for each head, norms on both sides."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    norms = h * (2 if c.flag("use_sandwich_norm", True) else 1)
    size = c.number("head_dim", h // heads)
    made = {"conv": short_convolution(h, c.number("conv_L_cache", 7), bias=c.flag("conv_bias"))}
    for kind, window in (("full_attention", 0), ("sliding_attention", c.number("sliding_window", 0))):
        made[kind] = attention(
            h,
            heads,
            c.number("num_key_value_heads", heads),
            size,
            biases="qkvo" if c.flag("attention_bias") else "",
            gate=heads if c.flag("use_attention_gate", True) else 0,
            window=window,
        ).plus(2 * size)
    network = mlp(h, c.need("intermediate_size")).plus(norms)
    kinds = c.kinds("layer_types", depth)
    for kind in {*kinds} - {*made, ""}:
        c.problems.add("layer_types", kind, "is no kind of layer of LFM3")
        made[kind] = made["conv"]
    layers = [(made[kind or "conv"].plus(norms), network) for kind in kinds]
    tied = c.flag("tie_word_embeddings", True)
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=tied, qk_norm=True)
