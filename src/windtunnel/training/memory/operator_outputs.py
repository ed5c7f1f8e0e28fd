"""Bytes that operators write, and the kind of memory that a kept tensor counts to, for the traces of layers."""

from __future__ import annotations

from windtunnel.graph import Kind, Operator
from windtunnel.training.memory.tensor_events import ACTIVATION, LOGITS, SCORES

RECOMPUTED = " (recomputed)"
"""Suffix that tells a recomputed copy of a tensor from a kept tensor of the same name."""


def plain_name(name: str) -> str:
    """Name of a tensor without the mark of its recomputed copy."""
    return name.removesuffix(RECOMPUTED)


def memory_kind(name: str) -> int:
    """Index into `KINDS` of a kept tensor."""
    if name.startswith("logits") or name in ("final_norm_out", "final_norm_input"):
        return LOGITS
    return SCORES if plain_name(name) in ("softmax_out", "dropout_out", "dropout_mask") else ACTIVATION


def output_bytes(op: Operator, before: float, hidden: float, written: float) -> float:
    """Bytes that an operator writes on this rank.

    Args:
        op: The operator, as this rank runs it.
        before: Bytes that it reads.
        hidden: Bytes of the residual stream.
        written: Bytes of the kept tensors of its module.
    """
    if op.module == "loss":
        return 0.0
    if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
        return op.m * op.n * op.element_bytes
    if op.kind == Kind.BATCHED_GEMM:
        return op.groups * op.m * op.n * op.element_bytes
    if op.kind == Kind.ATTENTION:
        return op.m * op.heads * op.d_v * op.element_bytes
    if op.module == "norm" or op.name == "unpermute":
        return hidden
    return written or before
