"""What operators write, and what kind of memory it is, for the scripts of layers."""

from __future__ import annotations

from windtunnel.graph import Kind, Operator
from windtunnel.training.memory.tensor_events import ACTIVATION, LOGITS, SCORES


def memory_kind(name: str) -> int:
    """Index into `KINDS` of a kept tensor."""
    if name.startswith("logits") or name in ("final_norm_out", "final_norm_input"):
        return LOGITS
    return SCORES if name.removesuffix(" again") in ("softmax_out", "dropout_out", "dropout_mask") else ACTIVATION


def output_bytes(op: Operator, before: float, hidden: float, written: float) -> float:
    """Bytes an operator writes on this rank; `written` are kept tensors of its module."""
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
