"""One instance of the reference loop: its line, its batch, its cache and the blocks that requests take of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.prefix_cache import PrefixCache
from windtunnel.serving.event_loop.twin.queue import Queue
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.iteration.overlap_savings import Overlap

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.pins import Pins
    from windtunnel.serving.event_loop.twin.pipeline import Pipeline

MILLION = 1_000_000
EXPECTED_MOST = 4096
"""Tokens of one answer that are expected at most (SGLang, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION)."""


class Lending(Protocol):
    """Blocks that instances lend each other (`kv_tiers.lending`)."""

    @property
    def horizon(self) -> int:
        """Decode steps after which loans are looked at again."""
        ...

    def could(self, one: Instance, blocks: int) -> bool:
        """Tell whether an instance could get so many blocks from others, were they all idle."""
        ...

    def borrow(self, one: Instance, blocks: int) -> bool:
        """Get so many blocks for an instance, all or none."""
        ...

    def settle(self, one: Instance) -> None:
        """Give back what fits on the instance itself again."""

    def kv(self, one: Instance, tokens: float) -> float:
        """Return the tokens whose keys and values an instance's iteration waits for."""
        ...

    def starved(self) -> list[Instance]:
        """Return idle instances with queued requests, which others may have room for now."""
        ...

    def seconds(self, one: Instance, sequences: Sequence[Request], prompt_tokens: int) -> float:
        """Return the seconds that an iteration adds for queries that go to lenders and come back.

        Args:
            one: the borrower.
            sequences: sequences that take a decode step.
            prompt_tokens: prompt tokens that are computed, each a query.
        """
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class Instance:
    """One instance: its line, its batch, its cache."""

    index: int
    limits: Limits
    lines: dict[int, deque[Request]] = field(default_factory=dict)
    prompts: list[Request] = field(default_factory=list)
    decoding: list[Request] = field(default_factory=list)
    admitted: list[Request] = field(default_factory=list)
    used: int = 0
    busy_until: float = float("inf")
    start: float = 0.0
    chunks: list[tuple[Request, int]] = field(default_factory=list)
    steps: int = 0
    polled: int = 0
    mode: str = "idle"
    step_s: float = 0.0
    slope_s: float = 0.0
    tokens_to_do: float = 0.0
    ratio: int = 0
    """Share of the output tokens to come that is expected, in millionths."""
    host: int = 0
    """Blocks in host memory."""
    fraction: int = 0
    """Share of the next token that every decoding sequence has made, in millionths."""
    ahead: int = 0
    """Tokens that a sequence may make in a step, where that is drawn."""
    cache: PrefixCache | None = None
    queue: Queue = field(default_factory=Queue)
    now: float = 0.0
    """Time of the event under way in seconds, for disciplines that read the clock."""
    stall_s: float = 0.0
    """That the next iteration waits for copies to and from the host."""
    coming: list[tuple[float, int]] = field(default_factory=list)
    """When the caches of requests in `moving` come back from the host, by request."""
    asked: int = 0
    """Prompt tokens of queued requests."""
    linear: Floats = field(default_factory=lambda: np.zeros(1))
    """Seconds of an iteration by its computed tokens, for hooks that look ahead."""
    prefill_only: bool = False
    """Prompts are computed for another pool."""
    promised: int = 0
    """Such prompts that are sent here while their answers wait for blocks."""
    answers_only: bool = False
    """It takes no requests in."""
    moving: list[Request] = field(default_factory=list)
    """Answers that have blocks, whose cache is not here yet."""
    ready: list[Request] = field(default_factory=list)
    """Those whose cache has come; they join when the next iteration is formed."""
    cancelled: list[Request] = field(default_factory=list)
    """Running requests that were taken back: they end with the step under way."""
    pins: Pins | None = None
    """What keeps blocks of calls that are over; None: nothing does."""
    pinned: dict[int, Request] = field(default_factory=dict)
    """Those calls here, by number, the oldest first."""
    joined: list[Request] = field(default_factory=list)
    overlap: Overlap | None = None
    """What techniques save of an iteration."""
    borrowed: int = 0
    """Blocks of other instances."""
    lent: int = 0
    """Blocks that others use."""
    lending: Lending | None = None
    pipeline: Pipeline | None = None
    """Whose stages its micro-batches pass, in turn with those of its other lanes."""
    in_stages: bool = True
    """False while a run goes on whose steps after the first have not been sent through those stages."""

    @property
    def capacity(self) -> int:
        """Blocks that it may use."""
        return self.limits.blocks + self.borrowed - self.lent

    def room(self, blocks: int) -> bool:
        """Whether so many more blocks fit, those of other instances included."""
        short = self.used + blocks - self.capacity
        return short <= 0 or (self.lending is not None and self.lending.borrow(self, short))

    @property
    def waiting(self) -> int:
        """Queued requests."""
        return self.queue.waiting(self)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self.prompts) + len(self.decoding) + len(self.moving) + len(self.ready)

    def next_in_line(self) -> Request | None:
        """Who is served first."""
        return self.queue.next(self)

    def blocks(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.limits.block)

    def wanted(self, q: Request) -> int:
        """Blocks of tokens that a request takes when it enters."""
        if self.limits.reserve:
            return self.blocks(max(q.input + q.output, self.limits.reserve_length) + self.limits.lookahead)
        return self.blocks(q.input + q.made - q.remote + self.limits.lookahead)

    def extra(self, q: Request) -> int:
        """Blocks that it takes next to those of its tokens: recurrent states, layers that keep a window."""
        if not self.limits.window_share:
            return self.limits.sequence_blocks
        kept = float(min(q.input + q.output, self.limits.window)) * self.limits.window_share
        return self.limits.sequence_blocks + math.ceil(kept / self.limits.block)

    def known(self, q: Request) -> int:
        """Tokens of a queued request that it need not compute."""
        if q.swapped:
            return q.input + q.made - 1
        known = self.found(q)
        if q.reused and not q.preemptions:
            return min(known + q.reused, q.input + q.made - 1)
        return known

    def found(self, q: Request) -> int:
        """Those of them that the cache has."""
        if self.cache is None or q.swapped:
            return q.cached
        return min(self.cache.reusable(q, self.limits.block), q.input + q.made - 1)

    def expected(self) -> int:
        """Tokens that the batch is expected to make, in millionths."""
        left = [q.output - q.made for q in self.decoding]
        if left and max(left) > EXPECTED_MOST:
            left = [min(tokens, EXPECTED_MOST) for tokens in left]
        decoding = sum(left) * self.ratio
        return decoding + sum(min(q.output - q.made, EXPECTED_MOST) for q in self.prompts) * MILLION

    def enter(self, q: Request) -> None:
        """Blocks and content of a request that is admitted."""
        q.cached = 0 if q.remote else self.known(q)
        q.blocks = self.wanted(q)
        self.used += q.blocks + self.extra(q)
        if self.cache is not None:
            if not q.swapped and not q.remote:
                self.cache.fetch(q, self.limits.block, self.now)
                q.shared, _, q.nodes = self.cache.find(q.chain)
                self.used += self.cache.hold(q.chain[: q.nodes]) - q.shared
            self.cache.evict(self.capacity - self.used)

    def register(self, q: Request, done: int) -> None:
        """So many tokens of a request are computed: others may find them."""
        if self.cache is not None:
            nodes, gained, used = self.cache.register(q.chain, q.nodes, done // self.limits.block)
            q.nodes, q.shared, self.used = nodes, q.shared + gained, self.used + used

    def leave(self, q: Request, done: int) -> None:
        """A request gives its blocks back; so many of its tokens are computed."""
        self.register(q, done)
        self.used -= q.blocks - q.shared + self.extra(q)
        if self.cache is not None and not q.pinned:
            self.used -= self.cache.release(q.chain[: q.nodes])
            q.nodes = q.shared = 0

    def pairs(self, q: Request, c: int) -> float:
        """Query-key pairs of a prompt's next tokens; sparse attention is charged for those that it attends to."""
        every = float(c) * (q.input + q.made - q.left) + 0.5 * float(c) * c
        if self.limits.reach > 0.0:
            return min(every, c * self.limits.reach) + self.limits.index_share * every
        return every

    def growth(self) -> int:
        """Blocks that the next decode step takes."""
        if self.limits.reserve:
            return 0
        ahead, block = self.limits.lookahead, self.limits.block
        most = self.ahead or self.gained(1)
        if most == 1:
            return sum([(q.stored + ahead) % block == 0 for q in self.decoding])
        return sum((q.stored + ahead + i) % block == 0 for i in range(most) for q in self.decoding)

    def gained(self, steps: int) -> int:
        """Tokens that each decoding sequence makes in so many steps."""
        return (self.fraction + steps * self.limits.tokens_per_step) // MILLION

    def kv(self) -> float:
        """Tokens in the cache of decoding sequences, the share of the next included; with loans, those waited for."""
        tokens = float(sum([q.stored + 1 for q in self.decoding])) + len(self.decoding) * (self.fraction * 1e-6)
        return tokens if self.lending is None else self.lending.kv(self, tokens)
