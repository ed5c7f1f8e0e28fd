"""Lanes: what every replica (or rank) runs, micro-batch after micro-batch, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats
from windtunnel.registry import Registry
from windtunnel.specs.batches import DocumentLengths
from windtunnel.training.variable_length.packing import packed
from windtunnel.training.variable_length.pass_time_table import PassTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a layout is made for."""

    spec: DocumentLengths
    table: PassTable
    seq_len: int
    rows: int
    """Rows of a step: `global_batch`."""
    mbs: int
    cp: int
    ranks: int
    """dp · cp: ranks that hold the same parameters, close ones first."""
    per_node: int
    """Of them behind one scale-up network."""
    m: int
    """Micro-batches of a replica with fixed groups."""
    move_s: Callable[[float, float], float]
    """Seconds to move so many tokens of a rank inside a node and between nodes, in all layers, both ways."""

    @property
    def capacity(self) -> float:
        """Tokens that one rank holds of a micro-batch."""
        return self.mbs * self.seq_len / self.cp

    def documents(self, rng: Generator) -> Floats:
        """Documents of one batch: those that fill its rows, so that every layout gets the same."""
        return packed(self.spec, self.seq_len, self.rows, rng).documents

    @property
    def tokens(self) -> float:
        """Of a step."""
        return float(self.rows) * self.seq_len


@dataclass(frozen=True, slots=True)
class Lanes:
    """One batch, laid out."""

    seconds: Floats
    """(lanes, micro-batches, 3, K); zero where a lane has nothing."""
    tokens: float
    """Of documents, in all."""
    computed: float
    """With padding."""
    squares: float
    """Sum of squared lengths of documents."""
    shares: dict[int, float]
    """Ranks of a sequence → share of tokens."""

    def busy_s(self, stages: int) -> Floats:
        """(lanes, micro-batches): seconds on a stage, on average over stages."""
        return np.asarray(self.seconds.sum(axis=(2, 3)) / stages)


Layout = Callable[[Case, Generator], Lanes]
LAYOUTS: Registry[Layout] = Registry(
    "sequence_groups", package="windtunnel.training.variable_length.sequence_groups", noun="layout of documents"
)
"""`plan.sequence_groups` → how a batch is laid over ranks."""


def coupled(lanes: Floats, group: int) -> Floats:
    """Lanes that wait for one another in every micro-batch: each of `group` neighbours takes the slowest's time.

    Args:
        lanes: (lanes, micro-batches, 3, K) seconds.
        group: 1: they only meet at the end of a step.
    """
    if group <= 1:
        return lanes
    out = lanes.copy()
    for first in range(0, len(lanes), group):
        own = lanes[first : first + group]
        slowest = own.sum(axis=(2, 3)).argmax(axis=0)
        out[first : first + group] = own[slowest, np.arange(lanes.shape[1])]
    return out


def filled(jobs: list[list[Floats]], shape: tuple[int, ...]) -> Floats:
    """(lanes, micro-batches, 3, K) of lists of passes of unlike number."""
    out = np.zeros((len(jobs), max(map(len, jobs)), *shape))
    for i, own in enumerate(jobs):
        for j, seconds in enumerate(own):
            out[i, j] = seconds
    return out
