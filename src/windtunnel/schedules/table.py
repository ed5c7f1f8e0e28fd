"""The instruction table that every pipeline schedule returns, and the costs that it is given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Int32s, Ints, Mask

F, B, W = 0, 1, 2
"""Forward; backward (input gradients only when `split_backward`, else both); weight gradients."""


@dataclass(frozen=True, slots=True)
class ScheduleCosts:
    """Seconds per (stage, chunk). Arrays have shape (p, v). `comm_s` is one activation hop between stages."""

    forward_s: Floats
    backward_s: Floats
    weight_s: Floats
    comm_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ScheduleLimits:
    """Activation memory a stage may hold, in units of one micro-batch's activations of the whole stage (all chunks)."""

    max_live: Floats | None = None
    """Shape (p,); None means the schedule's own limit (for 1F1B-like schedules p, unlimited where it has none)."""
    kept_after_backward: float = 1.0
    """Part of an activation that stays from the end of B to the end of W when the backward is split, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionTable:
    """What each pipeline stage runs, in order. Rows are sorted by stage, then by position on the stage.

    Shapes: `stage`, `kind`, `micro_batch`, `chunk` are (n,); `stage_ptr` is (p + 1,). `chunk` counts the model chunks
    of its stage, 0 to v − 1. `placement[k]` gives the (stage, chunk) of the k-th model part in depth order, shape
    (p·v, 2). With several copies of the model the parts of one copy follow those of the one before.
    """

    p: int
    m: int
    v: int
    stage: Int32s
    kind: npt.NDArray[np.int8]
    micro_batch: Int32s
    chunk: Int32s
    stage_ptr: Ints
    placement: Int32s
    split_backward: bool = False
    schedule: str = ""
    copies: int = 1
    """Copies of the model that the pipeline holds; a micro-batch runs through one of them."""
    copy_of: Int32s | None = None
    """Copy that each micro-batch runs through, shape (m,); absent: the only one."""
    joined: Mask | None = None
    """Rows that run as one unit with the row after them on their stage, shape (n,); absent: none.

    A unit starts when all its inputs are there and hands on its results when it ends: a forward and a backward whose
    exchanges hide behind each other's products, or both halves of an undivided backward."""

    runs: Mask | None = None
    """Parts that each micro-batch runs through, shape (m, depth), the first and the last always; absent: all."""

    def __len__(self) -> int:
        return len(self.stage)

    @property
    def depth(self) -> int:
        """Parts of one copy of the model."""
        return self.p * self.v // self.copies

    def neighbours(self) -> tuple[Ints, Ints]:
        """Part that comes before and after each part on the way of each micro-batch, shape (p·v, m); −1 at its ends."""
        parts = np.arange(self.p * self.v, dtype=np.int64)
        at = parts % self.depth
        before = np.where(at > 0, parts - 1, -1)[:, None].repeat(self.m, axis=1)
        after = np.where(at < self.depth - 1, parts + 1, -1)[:, None].repeat(self.m, axis=1)
        if self.runs is None:
            return before, after
        here = np.where(self.runs.T, parts[:, None], -1)  # copies and skips do not go together
        before[1:] = np.maximum.accumulate(here, axis=0)[:-1]
        last = np.where(self.runs.T, parts[:, None], self.p * self.v)[::-1]
        later = np.minimum.accumulate(last, axis=0)[::-1]
        after[:-1] = np.where(later[1:] < self.p * self.v, later[1:], -1)
        return before, after

    def units(self) -> tuple[Ints, Ints]:
        """First and last row of the unit of each row, shape (n,) each."""
        rows = np.arange(len(self), dtype=np.int64)
        if self.joined is None:
            return rows, rows
        begins = np.concatenate([[True], ~self.joined[:-1]])
        first = np.flatnonzero(begins)
        unit = np.cumsum(begins) - 1
        return first[unit], np.append(first[1:], len(rows))[unit] - 1
