"""Array arithmetic shared by schedules whose order is a warm-up, an alternating middle and a tail."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Int32s, Ints
from windtunnel.schedules.table import B, F, InstructionTable, W


def weave(n: int, warmup: Ints, delay: Ints | None = None) -> tuple[npt.NDArray[np.int8], Int32s]:
    """Kind and ordinal of every instruction when each stage warms up, then alternates F and B, then drains.

    Stage s runs `warmup[s]` forwards; then round i = 0 … n − 1 runs the next forward (while any is left), backward i
    and, with `delay`, weight gradient i − delay[s] (from round delay[s] on); the weight gradients left over come last.

    Args:
        n: forwards (and backwards) per stage.
        warmup: shape (p,), forwards before the first backward beyond the one of its own round; clipped to n.
        delay: shape (p,), rounds by which weight gradients trail their backward; None when the backward is not split.

    Returns:
        kind and ordinal (i-th instruction of that kind on its stage), both of shape (p, 2n) or (p, 3n).
    """
    p = len(warmup)
    w = np.minimum(warmup, n)[:, None]
    i = np.arange(n)[None, :]
    ordinal32 = np.arange(n, dtype=np.int32)
    begin = w + i + np.minimum(i, n - w)
    if delay is None:
        length = 2 * n
    else:
        length = 3 * n
        d = np.minimum(delay, n)[:, None]
        begin = begin + np.maximum(i - d, 0)
    rows = np.arange(p)[:, None]
    kind = np.empty((p, length), np.int8)
    ordinal = np.empty((p, length), np.int32)
    has_forward = i < n - w
    forward_at = np.where(i < w, i, np.take_along_axis(begin, np.broadcast_to(np.maximum(i - w, 0), (p, n)), axis=1))
    backward_at = begin + has_forward
    kind[rows, forward_at] = F
    ordinal[rows, forward_at] = ordinal32
    kind[rows, backward_at] = B
    ordinal[rows, backward_at] = ordinal32
    if delay is not None:
        after = np.take_along_axis(backward_at, np.broadcast_to(np.minimum(i + d, n - 1), (p, n)), axis=1) + 1
        weight_at = np.where(i < n - d, after, 2 * n + i)
        kind[rows, weight_at] = W
        ordinal[rows, weight_at] = ordinal32
    return kind, ordinal


def looped_placement(p: int, v: int) -> Int32s:
    """Part k sits on stage k mod p as its chunk k div p. Shape (p·v, 2): stage, chunk."""
    k = np.arange(p * v, dtype=np.int32)
    return np.stack([k % p, k // p], axis=1).astype(np.int32)


def v_placement(p: int) -> Int32s:
    """Parts 0 … p − 1 go down the stages as chunk 0, parts p … 2p − 1 come back up as chunk 1. Shape (2p, 2)."""
    k = np.arange(2 * p, dtype=np.int32)
    return np.stack([np.where(k < p, k, 2 * p - 1 - k), k // p], axis=1).astype(np.int32)


def table(
    schedule: str,
    m: int,
    v: int,
    kind: npt.NDArray[np.int8],
    micro_batch: Int32s,
    chunk: Int32s | None,
    placement: Int32s,
    split_backward: bool,
) -> InstructionTable:
    """An instruction table from (p, length) arrays, equally long for all stages.

    Args:
        schedule: id of the schedule.
        m: micro-batches.
        v: chunks on each stage.
        kind: F, B or W in the order of each stage, shape (p, length).
        micro_batch: shape (p, length).
        chunk: shape (p, length); None where each stage has one.
        placement: stage and chunk of each part of the model, shape (parts, 2).
        split_backward: whether weight gradients are instructions of their own.
    """
    p, length = kind.shape
    return read_only(
        InstructionTable(
            p=p,
            m=m,
            v=v,
            stage=np.repeat(np.arange(p, dtype=np.int32), length),
            kind=kind.reshape(-1),
            micro_batch=np.ascontiguousarray(micro_batch).reshape(-1),
            chunk=np.zeros(p * length, np.int32) if chunk is None else np.ascontiguousarray(chunk).reshape(-1),
            stage_ptr=np.arange(p + 1, dtype=np.int64) * length,
            placement=placement,
            split_backward=split_backward,
            schedule=schedule,
        )
    )


def read_only(result: InstructionTable) -> InstructionTable:
    """The table with arrays that cannot be written to, because tables are shared through a cache."""
    optional = (result.copy_of, result.joined)
    for array in (
        result.stage,
        result.kind,
        result.micro_batch,
        result.chunk,
        result.stage_ptr,
        result.placement,
        *(array for array in optional if array is not None),
    ):
        array.flags.writeable = False
    return result
