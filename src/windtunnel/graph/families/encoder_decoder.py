"""Decoder layers with cross attention (T5)."""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph.attention import Parts, cross_attention, self_attention
from windtunnel.graph.families import BLOCK_KINDS
from windtunnel.graph.mlp import dense_mlp
from windtunnel.graph.operators import Batch, Style
from windtunnel.specs.model import ModelSpec


@BLOCK_KINDS.register("C")
def _decoder_with_cross(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    tokens = batch.decoder_tokens or batch.tokens
    length = batch.decoder_seq_len or batch.seq_len
    own = replace(batch, tokens=tokens, seq_len=length, pairs=tokens * length / 2, full_pairs=tokens * length)
    return [
        self_attention(model, own, style, unfused=unfused),
        cross_attention(model, batch, style, unfused=unfused),
        dense_mlp(model, tokens, style),
    ]
