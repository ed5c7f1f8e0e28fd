"""Model families: one file each, registering the block kinds (letters of `ModelSpec.layer_kinds`) that it brings.

A builder takes (model, batch, style, unfused attention?) and returns the sub-blocks of one layer in order. A new layer
kind is one function in one file; other distributions add theirs through the entry points `windtunnel.block_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windtunnel.graph.attention import Parts
from windtunnel.graph.operators import Batch, Block, Style
from windtunnel.registry import Registry
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec

Builder = Callable[[ModelSpec, Batch, Style, bool], list[Parts]]

BLOCK_KINDS: Registry[Builder] = Registry("block_kinds", package="windtunnel.graph.families", noun="block kind")


def build_block(
    kind: str, layer: Sequence[SubBlock], model: ModelSpec, batch: Batch, style: Style, *, unfused: bool
) -> Block:
    """One block of the given kind; `layer`: its sub-blocks where layers are written one by one."""
    if layer:
        from windtunnel.graph.composed import sub_block

        parts = [sub_block(one, model, batch, style, unfused=unfused) for one in layer]
    else:
        parts = BLOCK_KINDS.get(kind)(model, batch, style, unfused)
    operators = tuple(op for part in parts for op in part.operators)
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    return Block(kind, operators, tensors, sum(p.params for p in parts), sum(p.expert_params for p in parts))
