"""Threads of one answer: a parent forks children that go on from what it has written, and goes on with their text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob

SHARES = 41
"""Stream of random numbers: how a block's tokens are spread over its threads."""
KNOBS = {
    "blocks": Knob(1, 1, 1000, doc="parallel blocks of an answer"),
    "width": Knob(4, 1, 1000, doc="threads of a block"),
    "parallel": Knob(0.5, 0.0, 1.0, doc="share of an answer's tokens that threads write"),
    "cv": Knob(0.3, 0.0, 10.0, doc="standard deviation over mean of the threads' tokens"),
    "instruction_tokens": Knob(0, 0, 10**6, doc="tokens that start each thread"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Parallel blocks of an answer."""

    blocks: int
    width: int
    """Threads of a block."""
    parallel: float
    """Share of the answer's tokens that threads write."""
    cv: float
    """Standard deviation over mean of the tokens of the threads of a block, before they share what it has."""
    instruction_tokens: int
    """Tokens that start each thread."""
    reuse: bool
    """Whether the parent takes over the threads' KV instead of computing their text again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """Tokens of answers."""

    serial: Ints
    """(P, blocks + 1) stretches that the parent writes."""
    threads: Ints
    """(P, blocks, width)."""

    @property
    def total(self) -> Ints:
        """(P,) all tokens."""
        out: Ints = self.serial.sum(1) + self.threads.sum((1, 2))
        return out

    @property
    def critical(self) -> Ints:
        """(P,) tokens written one after the other: the serial stretches, and each block's longest thread."""
        out: Ints = self.serial.sum(1) + self.threads.max(2).sum(1)
        return out


def divided(tokens: Ints, fork: Fork, random: Generator) -> Divided:
    """Divide answers: every stretch and thread has at least one token, so that short answers become a little longer.

    Args:
        tokens: (P,) of each answer, those of threads included.
        fork: into what.
        random: draws the weights by which threads share a block (gamma).
    """
    inner = np.maximum(np.rint(tokens * fork.parallel / fork.blocks), fork.width).astype(np.int64)
    outer = np.maximum(tokens - inner * fork.blocks, fork.blocks + 1)
    shape = (len(tokens), fork.blocks, fork.width)
    weights: Floats = np.ones(shape)
    if fork.cv > 0:
        weights = np.maximum(random.gamma(1 / fork.cv**2, size=shape), 1e-9)
    shares = (weights / weights.sum(2, keepdims=True)).cumsum(2)
    ends = np.rint(shares * (inner - fork.width)[:, None, None]).astype(np.int64)
    threads = 1 + np.diff(ends, axis=2, prepend=0)
    stretches = (np.arange(1, fork.blocks + 2) * outer[:, None]) // (fork.blocks + 1)
    return Divided(serial=np.diff(stretches, axis=1, prepend=0), threads=threads)


def forked(graph: ProgramGraph, work: Workload, tokens: Ints, fork: Fork) -> Ints:
    """Add one answer of each problem, serial stretches and blocks of threads in turn; returns the (P,) last calls."""
    own = divided(tokens, fork, work.random(SHARES))
    parent = graph.call(work.problems, context=work.questions(graph), output=own.serial[:, 0])
    for b in range(fork.blocks):
        children = [
            graph.call(work.problems, context=parent, new=fork.instruction_tokens, output=own.threads[:, b, w])
            for w in range(fork.width)
        ]
        texts = np.stack(children, axis=1)
        parent = graph.call(work.problems, context=parent, joined=texts, output=own.serial[:, b + 1], reuse=fork.reuse)
    return parent
