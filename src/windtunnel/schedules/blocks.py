"""Blocks of a schedule: passes of one chunk in one direction that follow one another on a stage."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Rows
from windtunnel.schedules.table import B, F, InstructionTable


def block_of(table: InstructionTable) -> Rows:
    """Block of each forward and backward, shape (n,); -1 for weight gradients, which read no parameters.

    Forwards and backwards that alternate have blocks of their own: a stage that keeps the parameters of the chunk that
    it runs forward and of the one that it runs backward gathers each once a block.
    """
    out = np.full(len(table), -1, np.int64)
    number = 0
    for kind in (F, B):
        rows = np.flatnonzero(table.kind == kind)
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (np.diff(table.stage[rows]) != 0) | (np.diff(table.chunk[rows]) != 0)
        out[rows] = number + np.cumsum(begins) - 1
        number += int(begins.sum())
    return out


def mean_block(table: InstructionTable) -> float:
    """Passes of a block, on average."""
    found = block_of(table)
    return float((found >= 0).sum()) / float(found.max(initial=0) + 1)
