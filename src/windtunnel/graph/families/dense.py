"""Dense decoders: attention (full or windowed) and a feed-forward network, together or alone."""

from __future__ import annotations

from windtunnel.graph.attention import Parts, self_attention
from windtunnel.graph.families import BLOCK_KINDS
from windtunnel.graph.mlp import dense_mlp
from windtunnel.graph.operators import Batch, Style
from windtunnel.specs.model import ModelSpec


@BLOCK_KINDS.register("D")
def _dense(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    mlp = dense_mlp(model, batch.tokens, style, with_norm=not model.parallel_block)
    return [self_attention(model, batch, style, unfused=unfused), mlp]


@BLOCK_KINDS.register("W")
def _windowed(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    attention = self_attention(model, batch, style, unfused=unfused, windowed=True)
    return [attention, dense_mlp(model, batch.tokens, style)]


@BLOCK_KINDS.register("A")
def _attention_alone(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [self_attention(model, batch, style, unfused=unfused)]


@BLOCK_KINDS.register("F")
def _mlp_alone(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [dense_mlp(model, batch.tokens, style)]
