"""Layers whose attention is linear (Qwen3-Next, TransNormerLLM), with a dense network or a mixture."""

from __future__ import annotations

from windtunnel.graph.attention import Parts
from windtunnel.graph.families import BLOCK_KINDS
from windtunnel.graph.mlp import dense_mlp, moe_mlp
from windtunnel.graph.operators import Batch, Style
from windtunnel.graph.recurrent import decayed_attention, linear_attention
from windtunnel.specs.model import ModelSpec


def _attention(model: ModelSpec, batch: Batch, style: Style) -> Parts:
    build = decayed_attention if model.linear_attention_kind == "decayed" else linear_attention
    return build(model, batch, style)


@BLOCK_KINDS.register("L")
def _linear(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [_attention(model, batch, style), dense_mlp(model, batch.tokens, style)]


@BLOCK_KINDS.register("N")
def _linear_mixture(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [_attention(model, batch, style), moe_mlp(model, batch, style)]
