"""Mixtures of experts (with MLA where the model has it: the attention sub-block decides)."""

from __future__ import annotations

from windtunnel.graph.attention import Parts, self_attention
from windtunnel.graph.families import BLOCK_KINDS
from windtunnel.graph.mlp import moe_mlp
from windtunnel.graph.operators import Batch, Style
from windtunnel.specs.model import ModelSpec


@BLOCK_KINDS.register("E")
def _mixture(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [self_attention(model, batch, style, unfused=unfused), moe_mlp(model, batch, style)]


@BLOCK_KINDS.register("X")
def _windowed_mixture(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [self_attention(model, batch, style, unfused=unfused, windowed=True), moe_mlp(model, batch, style)]


@BLOCK_KINDS.register("G")
def _mixture_alone(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [moe_mlp(model, batch, style)]
