"""Bytes per element of a block: blocks are written down in 16 bits, full precision widens what is not fp32 already."""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph.operators import Block, Operator, Tensor

_WRITTEN_BYTES = 2.0
"""Per element, in what block builders count."""


def widened(block: Block, element_bytes: float) -> Block:
    """A block whose tensors have `element_bytes` an element; masks, statistics and fp32 states stay as they are."""
    scale = element_bytes / _WRITTEN_BYTES
    operators = tuple(_operator(op, element_bytes, scale) for op in block.operators)
    return replace(block, operators=operators, tensors=tuple(_tensor(t, element_bytes) for t in block.tensors))


def _operator(op: Operator, element_bytes: float, scale: float) -> Operator:
    if op.module == "loss":  # counted by byte, in the style
        return replace(op, element_bytes=element_bytes)
    forward, backward = op.fp32_forward_bytes, op.fp32_backward_bytes
    return replace(
        op,
        forward_bytes=forward + (op.forward_bytes - forward) * scale,
        backward_bytes=backward + (op.backward_bytes - backward) * scale,
        element_bytes=element_bytes,
    )


def _tensor(tensor: Tensor, element_bytes: float) -> Tensor:
    return replace(tensor, element_bytes=element_bytes) if tensor.element_bytes == _WRITTEN_BYTES else tensor
