"""Lanes: the micro-batches that each replica or rank runs one after another, and which lanes wait for one another."""

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
    """The workload and the ranks that a batch is laid over."""

    spec: DocumentLengths
    table: PassTable
    seq_len: int
    rows: int
    """Rows of `seq_len` tokens in a step: `training.global_batch`."""
    mbs: int
    cp: int
    ranks: int
    """Number of ranks that hold the same parameters, dp · cp; neighbouring numbers are close in the network."""
    per_node: int
    """Number of those ranks that share a scale-up network."""
    m: int
    """Number of micro-batches of a replica where groups of ranks are fixed."""
    move_s: Callable[[float, float], float]
    """(tokens moved inside a node, tokens moved between nodes) of a rank → seconds, in all layers, both passes."""

    @property
    def capacity(self) -> float:
        """Number of tokens of a micro-batch that one rank holds."""
        return self.mbs * self.seq_len / self.cp

    def documents(self, rng: Generator) -> Floats:
        """Lengths in tokens of the documents that fill one batch's rows; every layout gets the same documents."""
        return packed(self.spec, self.seq_len, self.rows, rng).documents

    @property
    def tokens(self) -> float:
        """Number of tokens of a step, with padding."""
        return float(self.rows) * self.seq_len


@dataclass(frozen=True, slots=True)
class Lanes:
    """One batch laid over ranks."""

    seconds: Floats
    """(lanes, micro-batches, 3, K) seconds of F, B, W on each virtual stage; zero where a lane has no micro-batch."""
    tokens: float
    """Number of tokens of all documents."""
    computed: float
    """Number of tokens that are computed: those of documents, and padding."""
    squares: float
    """Sum of the squared lengths of documents, in tokens squared."""
    shares: dict[int, float]
    """Number of ranks that share a sequence → share of the tokens, 0 to 1."""

    def busy_s(self, stages: int) -> Floats:
        """Seconds that micro-batches keep a stage busy, the mean over stages, shape (lanes, micro-batches)."""
        return np.asarray(self.seconds.sum(axis=(2, 3)) / stages)


Layout = Callable[[Case, Generator], Lanes]
LAYOUTS: Registry[Layout] = Registry(
    "sequence_groups", package="windtunnel.training.variable_length.sequence_groups", noun="layout of documents"
)
"""Value of `plan.sequence_groups` → the function that lays a batch over ranks."""


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
