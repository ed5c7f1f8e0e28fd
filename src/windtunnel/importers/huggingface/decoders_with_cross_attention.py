"""Readers of encoder-decoders as their decoder: self-attention, attention to the encoder's outputs, MLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windtunnel.graph.mixers.attention import attention
from windtunnel.graph.mixers.feed_forward import mlp
from windtunnel.importers.huggingface.network import Config
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec

_STYLE: dict[str, Any] = {
    "norm": "layernorm",
    "gated_mlp": False,
    "hidden_act": "gelu",
    "attention_bias": True,
    "mlp_bias": True,
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the code of a type decides."""

    more_positions: int = 0
    """Rows of the table of positions beyond the longest sequence."""
    first_norm: bool = False
    last_norm: bool = False
    biases: str = "qkvo"
    tied: bool = True
    positions: str = "max_position_embeddings"


KINDS = {
    "bart": _Kind(more_positions=2, first_norm=True),
    "bigbird_pegasus": _Kind(first_norm=True, biases="", tied=False),
    "blenderbot": _Kind(last_norm=True),
    "blenderbot-small": _Kind(first_norm=True),
    "marian": _Kind(),
    "mbart": _Kind(more_positions=2, first_norm=True, last_norm=True),
    "mvp": _Kind(more_positions=2, first_norm=True),
    "pegasus": _Kind(last_norm=True),
    "plbart": _Kind(more_positions=2, first_norm=True),
    "trocr": _Kind(more_positions=2, first_norm=True),
    "whisper": _Kind(last_norm=True, biases="qvo", positions="max_target_positions"),
}


def decoder(c: Config) -> ModelSpec:
    """The decoder of BART and its relatives."""
    kind = KINDS[str(c.fields["model_type"])]
    c.assumed.append(("model", c.name, "only the decoder is read, with its attention to the encoder's outputs"))
    h, v = c.need("d_model", "hidden_size"), c.need("vocab_size")
    heads, width = c.need("decoder_attention_heads"), c.need("decoder_ffn_dim")
    biases = "qkvo" if c.flag("use_bias") else kind.biases
    own = attention(h, heads, heads, h // heads, biases=biases).plus(2 * h)
    cross = attention(h, heads, heads, h // heads, biases=biases, keys="other sequence").plus(2 * h)
    layer = (own, cross, mlp(h, width, gated=False, bias=True).plus(2 * h))
    tied = kind.tied and c.flag("tie_word_embeddings", True)
    inputs = (v + c.need(kind.positions) + kind.more_positions) * h + 2 * h * kind.first_norm
    return c.compose(
        [layer] * c.need("decoder_layers"),
        hidden=h,
        vocab=v,
        tied=tied,
        inputs=inputs,
        outputs=2 * h * kind.last_norm + v * h * (not tied),
        **_STYLE,
    )


def prophetnet(c: Config) -> ModelSpec:
    """ProphetNet's decoder; the streams that predict further tokens share its weights and are not priced."""
    c.assumed.append(("model", c.name, "only the decoder is read, without its streams for further tokens"))
    h, v = c.need("hidden_size"), c.need("vocab_size")
    heads, width = c.need("num_decoder_attention_heads"), c.need("decoder_ffn_dim")
    buckets = c.number("num_buckets", 32) * heads
    own = attention(h, heads, heads, h // heads, biases="qkvo").plus(2 * h + buckets)
    own = own.model_copy(update={"columns": (*own.columns, (h, buckets))})
    cross = attention(h, heads, heads, h // heads, biases="qkvo", keys="other sequence").plus(2 * h)
    layer: tuple[SubBlock, ...] = (own, cross, mlp(h, width, gated=False, bias=True).plus(2 * h))
    inputs = (v + c.need("max_position_embeddings") + c.number("ngram", 2)) * h + 2 * h
    layers = [layer] * c.need("num_decoder_layers")
    return c.compose(layers, hidden=h, vocab=v, tied=True, inputs=inputs, outputs=0, **_STYLE)
