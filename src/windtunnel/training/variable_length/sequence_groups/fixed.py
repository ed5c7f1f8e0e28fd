"""Rows of one length over groups of one size: every replica gets as many rows, whatever documents are in them."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from windtunnel.training.variable_length.packing import packed
from windtunnel.training.variable_length.rank_lanes import LAYOUTS, Case, Lanes


@LAYOUTS.register("fixed")
def fixed(case: Case, rng: Generator) -> Lanes:
    """Rows dealt to micro-batches of replicas: as they come, or those of like work together."""
    rows = packed(case.spec, case.seq_len, case.rows, rng)
    squares = rows.squares
    dp = case.ranks // case.cp
    if case.spec.order == "by_work":
        squares = np.sort(squares)[::-1]
        lanes = squares.reshape(case.m, dp, case.mbs)
        lanes[1::2] = lanes[1::2, ::-1].copy()  # the first replica does not always have most
        lanes = lanes.transpose(1, 0, 2)
    else:
        lanes = squares.reshape(dp, case.m, case.mbs)
    length = lanes.sum(axis=2) / (case.mbs * case.seq_len)
    whole = case.spec.packing == "padded"
    own = float((rows.used**2).sum()) if whole else float(rows.squares.sum())
    return Lanes(
        case.table.of(case.cp, length),
        float(rows.used.sum()),
        case.tokens,
        own,
        {case.cp: 1.0},
    )
