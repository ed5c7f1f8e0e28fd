"""Reader of models whose blocks a search has shaped one by one: Llama-Nemotron (DeciLM), Puzzle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.graph.mixers.attention import attention
from windtunnel.graph.mixers.feed_forward import mlp
from windtunnel.importers.huggingface.network import Blocks, Config
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec


def nemotron_nas(c: Config) -> ModelSpec:
    """Layers by `block_configs`: key/value heads and width of each, or a linear layer or nothing in their place.

    Source: Puzzle (arXiv 2411.19146); widths as `_ffn_mult_to_intermediate_size` of the models' own files has them
    (huggingface.co/nvidia/Llama-3_3-Nemotron-Super-49B-v1, modeling_decilm.py).
    """
    h, heads = c.need("hidden_size"), c.need("num_attention_heads")
    size = c.number("head_dim", h // heads)
    listed = c.fields.get("block_configs")
    shapes = [shape for shape in listed if isinstance(shape, Mapping)] if isinstance(listed, list) else []
    if not isinstance(listed, list) or len(shapes) != len(listed):
        c.problems.add("block_configs", listed, "must list the attention and the ffn of each layer")
    layers: list[Blocks] = []
    for shape in shapes:
        mixer, network = _part(shape, "attention"), _part(shape, "ffn")
        blocks = (_mixer(c, mixer, h, heads, size), _network(c, network, h))
        if any(blocks):
            layers.append(tuple(block.plus(h) for block in blocks if block is not None))
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def _part(shape: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = shape.get(name)
    return part if isinstance(part, Mapping) else {}


def _replaced(part: Mapping[str, Any], h: int) -> SubBlock | None:
    """What stands in the place of a sub-block; None where that is nothing."""
    return SubBlock(kind="projection", columns=((h, h),)) if part.get("replace_with_linear") else None


def _mixer(c: Config, part: Mapping[str, Any], h: int, heads: int, size: int) -> SubBlock | None:
    if part.get("no_op") or part.get("replace_with_linear"):
        return _replaced(part, h)
    grouped = Config({"num_key_value_heads": c.fields.get("num_key_value_heads"), **part}, c.name)
    grouped.problems = c.problems
    if part.get("n_heads_in_group") is not None:
        kv_heads = max(heads // grouped.number("n_heads_in_group", 1), 1)
    else:
        kv_heads = grouped.need("num_key_value_heads")
    return attention(h, heads, kv_heads, size, window=grouped.number("window_length", 0))


def _network(c: Config, part: Mapping[str, Any], h: int) -> SubBlock | None:
    if part.get("no_op") or part.get("replace_with_linear"):
        return _replaced(part, h)
    factor = part.get("ffn_mult")
    if isinstance(factor, int | float) and 0 < factor < 1000:
        width = -(-int(2 * factor * h / 3) // 256) * 256
    else:
        sized = Config({"intermediate_size": c.fields.get("intermediate_size"), **part}, c.name)
        sized.problems = c.problems
        width = sized.need("intermediate_size")
    return mlp(h, width)
