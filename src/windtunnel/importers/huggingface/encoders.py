"""Readers of BERT-like models whose tables, heads or layers are their own."""

from __future__ import annotations

from typing import Any

from windtunnel.importers.huggingface.network import Config
from windtunnel.importers.huggingface.parts import bert_layer
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec

_STYLE: dict[str, Any] = {"norm": "layernorm", "hidden_act": "gelu", "attention_bias": True, "mlp_bias": True}


def _tables(c: Config, width: int) -> int:
    """Tokens, positions and types of a width, with their layer norm."""
    rows = c.need("vocab_size") + c.need("max_position_embeddings") + c.number("type_vocab_size", 2)
    return rows * width + 2 * width


def _layers(c: Config, h: int) -> list[tuple[SubBlock, ...]]:
    return [bert_layer(h, c.need("num_attention_heads"), c.need("intermediate_size"))] * c.need("num_hidden_layers")


def electra(c: Config) -> ModelSpec:
    """ELECTRA's generator: tables of a width below that of the layers, joined by a projection."""
    h, v = c.need("hidden_size"), c.need("vocab_size")
    e = c.number("embedding_size", 128)
    inputs = _tables(c, e) + (e * h + h if e != h else 0)
    outputs = h * e + e + 2 * e + v
    return c.compose(
        _layers(c, h), hidden=h, vocab=v, tied=True, inputs=inputs, outputs=outputs, output_size=e, **_STYLE
    )


def rembert(c: Config) -> ModelSpec:
    """RemBERT: narrow input tables and a head wider than the layers."""
    h, v = c.need("hidden_size"), c.need("vocab_size")
    e, o = c.number("input_embedding_size", 256), c.number("output_embedding_size", 1664)
    inputs = _tables(c, e) + e * h + h
    outputs = h * o + o + 2 * o + v * o + v
    return c.compose(
        _layers(c, h), hidden=h, vocab=v, tied=False, inputs=inputs, outputs=outputs, output_size=o, **_STYLE
    )


def roc_bert(c: Config) -> ModelSpec:
    """RoCBert: tables of pronunciations and glyph shapes next to that of tokens, joined by a projection."""
    h, v = c.need("hidden_size"), c.need("vocab_size")
    inputs, joined = _tables(c, h), h
    for name, size, rows in (("pronunciation", h, 910), ("shape", 512, 24858)):
        if c.flag(f"enable_{name}", True):
            width = c.number(f"{name}_embed_dim", size)
            inputs, joined = inputs + c.number(f"{name}_vocab_size", rows) * width, joined + width
    if c.flag("concat_input", True):
        inputs += joined * h + h
    outputs = h * h + 3 * h + v
    return c.compose(_layers(c, h), hidden=h, vocab=v, tied=True, inputs=inputs, outputs=outputs, **_STYLE)


def xmod(c: Config) -> ModelSpec:
    """X-MOD: after each layer the adapter of the text's language; those of other languages wait in memory."""
    h, v = c.need("hidden_size"), c.need("vocab_size")
    narrow = h // c.number("adapter_reduction_factor", 2)
    languages = c.fields.get("languages") or ["en_XX"]
    one = 2 * h * narrow + narrow + h
    adapter = SubBlock(
        kind="mlp",
        columns=((h, narrow),),
        rows=((narrow, h),),
        gated=False,
        vectors=narrow + h + (len(languages) - 1) * one + 2 * h * c.flag("adapter_layer_norm"),
    )
    layers = [(*layer, adapter) for layer in _layers(c, h)]
    outputs = h * h + 3 * h + v
    return c.compose(layers, hidden=h, vocab=v, tied=True, inputs=_tables(c, h), outputs=outputs, **_STYLE)
