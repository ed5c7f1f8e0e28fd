"""Readers of models that mix linear with softmax attention: Kimi-Linear, Bailing, MiniMax."""

from __future__ import annotations

from windtunnel.graph.mixers.attention import attention, latent_attention
from windtunnel.graph.mixers.feed_forward import mixture
from windtunnel.graph.mixers.linear_attention import delta_attention, lightning_attention
from windtunnel.importers.huggingface.network import Config
from windtunnel.importers.huggingface.parts import feed_forward_layers
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec


def _latent(c: Config, h: int, heads: int, gate: int = 0) -> SubBlock:
    dims = (c.need("qk_nope_head_dim"), c.need("qk_rope_head_dim"), c.need("v_head_dim"))
    return latent_attention(h, heads, c.need("kv_lora_rank"), dims, q_rank=c.number("q_lora_rank", 0), gate=gate)


def kimi_linear(c: Config) -> ModelSpec:
    """Kimi-Linear and Kimi K3: delta attention with low-rank decays, latent attention in between.

    Kimi K3 gates both at full rank, runs its routed experts in a latent, and joins earlier layers to the inputs of a
    sub-block by a vector (vllm/transformers_utils/configs/kimi_k3.py and models of Kimi K3 in MLX, 2026-08).
    """
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    linear = c.part("linear_attn_config")
    size = linear.number("head_dim", c.number("linear_head_dim", 128))
    scans = linear.number("num_heads", c.number("linear_num_heads", 32))
    taps = linear.number("short_conv_kernel_size", c.number("linear_conv_kernel_dim", 4))
    attended = linear.fields.get("full_attn_layers")
    if isinstance(attended, list):  # counted from 1
        kinds = ["full_attention" if i + 1 in attended else "linear_attention" for i in range(depth)]
    else:
        kinds = c.kinds("layer_types", depth)
    gate_rank = 0 if linear.flag("use_full_rank_gate") else size
    gate = heads * c.need("v_head_dim") if c.flag("mla_use_output_gate") else 0
    joined = 2 * h if c.fields.get("attn_res_block_size") else 0
    delta = delta_attention(h, scans, size, conv=taps, decay_rank=size, gate_rank=gate_rank)
    mixers = (delta.plus(h + joined), _latent(c, h, heads, gate=gate).plus(h + joined))
    networks = feed_forward_layers(c, h, depth)
    layers = [(mixers[k == "full_attention"], n.plus(h + joined)) for k, n in zip(kinds, networks, strict=True)]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def bailing_hybrid(c: Config) -> ModelSpec:
    """Bailing's hybrids: delta attention with full decays and gates, gated latent attention in between."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    taps = c.number("linear_conv_kernel_dim", c.number("short_conv_kernel_size", 4))
    delta = delta_attention(h, c.number("linear_num_heads", heads), c.number("linear_head_dim", 128), conv=taps)
    mixers = (delta.plus(h), _latent(c, h, heads, gate=heads).plus(h))
    group = c.number("layer_group_size", 6)
    usual = ["linear_attention" if (i + 1) % group else "full_attention" for i in range(depth)]
    kinds = c.kinds("layer_types", depth, usual)
    networks = feed_forward_layers(c, h, depth)
    layers = [(mixers[k == "full_attention"], n.plus(h)) for k, n in zip(kinds, networks, strict=True)]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def minimax(c: Config) -> ModelSpec:
    """MiniMax-01: lightning attention and softmax attention in turn, a mixture in every layer."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    size = c.number("head_dim", h // heads)
    numbers = c.fields.get("attn_type_list")
    if isinstance(numbers, list):
        kinds = ["full_attention" if n == 1 else "linear_attention" for n in numbers]
    else:
        usual = ["linear_attention" if i % 2 else "full_attention" for i in range(depth)]
        kinds = c.kinds("layer_types", depth, usual)
    experts = mixture(h, c.need("num_local_experts"), c.need("num_experts_per_tok"), c.need("intermediate_size"))
    mixers = (
        lightning_attention(h, heads, size).plus(h),
        attention(h, heads, c.number("num_key_value_heads", heads), size).plus(h),
    )
    layers = [(mixers[kind == "full_attention"], experts.plus(h)) for kind in kinds]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))
