"""Bidirectional encoders: BERT, ViT and the first half of T5."""

from __future__ import annotations

from windtunnel.graph.attention import Parts, self_attention
from windtunnel.graph.families import BLOCK_KINDS
from windtunnel.graph.mlp import dense_mlp
from windtunnel.graph.operators import Batch, Style
from windtunnel.specs.model import ModelSpec


@BLOCK_KINDS.register("B")
def _encoder(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    attention = self_attention(model, batch, style, unfused=unfused, causal=False)
    return [attention, dense_mlp(model, batch.tokens, style)]
