"""Attention and feed-forward side by side: one gather and one reduction of the tensor axis for both branches.

Both read one norm's output, and their partial sums are added before they are reduced, so that a layer has half of the
exchanges. Source: Jiang et al. 2024 (MegaScale, arXiv 2402.15627), section 3.1; the block is GPT-J's (2021).
"""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph import Block, Kind, Operator, Tensor

_DROPPED = ("tp_gather_fc1", "tp_regather_fc1", "tp_reduce_proj")


def is_parallel(block: Block) -> bool:
    """Whether the block has attention and a feed-forward network that share a norm."""
    names = {op.name for op in block.operators}
    return {"qkv", "proj", "fc1", "fc2"} <= names and "mlp_norm" not in names


def one_exchange(operators: list[Operator]) -> list[Operator]:
    """Local operators of a parallel block without the exchanges that its branches share."""
    return [op for op in operators if op.name not in _DROPPED]


def side_by_side(block: Block) -> Block:
    """A serial block as a parallel one: the second norm and what it keeps go, the first one's output serves both."""
    names = {op.name for op in block.operators}
    if not {"qkv", "proj", "mlp_norm", "fc1", "fc2"} <= names:
        return block
    operators = tuple(op for op in block.operators if op.name != "mlp_norm")
    tensors: list[Tensor] = []
    for t in block.tensors:
        if t.name in ("mlp_input", "mlp_norm_out"):
            continue
        shared = t.name == "attn_norm_out"
        tensors.append(replace(t, consumers=(*t.consumers, "fc1")) if shared else t)
    params = block.params - sum(op.params for op in block.operators if op.name == "mlp_norm")
    return replace(block, operators=operators, tensors=tuple(tensors), params=params)


def windowed(block: Block, window: float) -> Block:
    """Causal attention over the last `window` tokens alone: q·w − w²/2 pairs of a sequence of q tokens."""

    def cut(op: Operator) -> Operator:
        if op.kind != Kind.ATTENTION or window >= op.seq_len:
            return op
        full = op.seq_len * op.seq_len / 2
        return replace(op, pairs=op.pairs * min((op.seq_len * window - window * window / 2) / full, 1.0))

    return replace(block, operators=tuple(cut(op) for op in block.operators))
