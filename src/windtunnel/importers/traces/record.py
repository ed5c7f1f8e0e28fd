"""What a request trace says, whatever its format: arrays, SI units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints


@dataclass(frozen=True, slots=True)
class PrefixBlocks:
    """Content of prompts in blocks, as rows of different lengths (CSR).

    Equal ids at the same place mean equal tokens from the start of the prompt to the end of that block.
    """

    start: Ints
    """(R + 1,) where each request's ids begin."""
    ids: Ints
    """(start[R],) ids, numbered from 0 by first appearance."""
    block_size: int
    """Tokens of one block; the last of a prompt may hold fewer."""

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, request: int) -> Ints:
        return self.ids[self.start[request] : self.start[request + 1]]

    def take(self, first: int) -> PrefixBlocks:
        """Blocks of the `first` requests alone."""
        return PrefixBlocks(self.start[: first + 1], self.ids[: self.start[first]], self.block_size)

    def known(self) -> Ints:
        """(R,) leading blocks of each prompt that an earlier request holds: hits of a cache that forgets nothing."""
        counts = np.diff(self.start)
        owner = np.repeat(np.arange(len(self)), counts)
        first = np.full(int(self.ids.max(initial=-1)) + 1, len(self))
        np.minimum.at(first, self.ids, owner)
        place = np.arange(len(self.ids)) - np.repeat(self.start[:-1], counts)
        fresh = np.where(first[self.ids] < owner, np.repeat(counts, counts), place)
        known = counts.copy()
        some = counts > 0
        known[some] = np.minimum.reduceat(fresh, self.start[:-1][some])
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """R requests of a trace, by arrival where that is known. Arrays have shape (R,)."""

    file: str
    format: str
    input_tokens: Int32s
    output_tokens: Int32s
    arrival_s: Floats | None = None
    """Seconds since the first request; nan for a turn that follows another. None: the trace does not say."""
    session: Ints | None = None
    """Conversation of each request, from 0."""
    turn: Ints | None = None
    """Place in its conversation, from 0; prompts hold the turns before."""
    delay_s: Floats | None = None
    """Seconds between the end of the turn before and this one; 0 where there is none."""
    blocks: PrefixBlocks | None = None
    ttft_s: Floats | None = None
    """Measured seconds, where the file has them; nan where a request has none."""
    e2e_s: Floats | None = None
    stated: dict[str, Any] = field(default_factory=dict)
    """How the load was made, in the words of `traffic` (rate_per_s, concurrency …)."""
    measured: dict[str, float] = field(default_factory=dict)
    """What a result says of its run besides requests, by name with its unit (ttft_mean_s, output_tokens_per_s …)."""
    assumed: tuple[tuple[str, Any, str], ...] = ()
    """Field, value, why: what the file leaves open."""
    left_out: tuple[tuple[int, str], ...] = ()
    """How many requests are not in the arrays, and why."""

    def __len__(self) -> int:
        return len(self.input_tokens)
