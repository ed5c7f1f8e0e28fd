"""Block letters of `ModelSpec.layer_kinds` → operators. A new layer kind is one function and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windtunnel.graph.attention import Parts, cross_attention, self_attention
from windtunnel.graph.mlp import dense_mlp, moe_mlp
from windtunnel.graph.operators import Batch, Block, Style
from windtunnel.graph.recurrent import linear_attention, mamba2
from windtunnel.specs.model import ModelSpec

Builder = Callable[[ModelSpec, Batch, Style, bool], list[Parts]]


def _dense(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    mlp = dense_mlp(model, batch.tokens, style, with_norm=not model.parallel_block)
    return [self_attention(model, batch, style, unfused=unfused), mlp]


def _windowed(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    attention = self_attention(model, batch, style, unfused=unfused, windowed=True)
    return [attention, dense_mlp(model, batch.tokens, style)]


def _mixture(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [self_attention(model, batch, style, unfused=unfused), moe_mlp(model, batch, style)]


def _windowed_mixture(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [self_attention(model, batch, style, unfused=unfused, windowed=True), moe_mlp(model, batch, style)]


def _linear(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [linear_attention(model, batch, style), dense_mlp(model, batch.tokens, style)]


def _linear_mixture(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [linear_attention(model, batch, style), moe_mlp(model, batch, style)]


def _encoder(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    attention = self_attention(model, batch, style, unfused=unfused, causal=False)
    return [attention, dense_mlp(model, batch.tokens, style)]


def _decoder_with_cross(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    tokens = batch.decoder_tokens or batch.tokens
    length = batch.decoder_seq_len or batch.seq_len
    own = replace(batch, tokens=tokens, seq_len=length, pairs=tokens * length / 2, full_pairs=tokens * length)
    return [
        self_attention(model, own, style, unfused=unfused),
        cross_attention(model, batch, style, unfused=unfused),
        dense_mlp(model, tokens, style),
    ]


BUILDERS: dict[str, Builder] = {
    "D": _dense,
    "W": _windowed,
    "E": _mixture,
    "X": _windowed_mixture,
    "L": _linear,
    "N": _linear_mixture,
    "B": _encoder,
    "C": _decoder_with_cross,
    "M": lambda model, batch, style, _: [mamba2(model, batch, style)],
    "A": lambda model, batch, style, unfused: [self_attention(model, batch, style, unfused=unfused)],
    "F": lambda model, batch, style, _: [dense_mlp(model, batch.tokens, style)],
    "G": lambda model, batch, style, _: [moe_mlp(model, batch, style)],
}


def build_block(kind: str, model: ModelSpec, batch: Batch, style: Style, *, unfused: bool) -> Block:
    """One block of the given kind."""
    parts = BUILDERS[kind](model, batch, style, unfused)
    operators = tuple(op for part in parts for op in part.operators)
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    return Block(kind, operators, tensors, sum(p.params for p in parts), sum(p.expert_params for p in parts))
