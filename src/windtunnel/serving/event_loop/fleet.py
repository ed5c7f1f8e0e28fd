"""Instances of several pools in one loop: what each pool's are limited by, and how caches move between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.errors import BadInput, Problem
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.iteration.overlap_savings import Overlap
from windtunnel.serving.iteration.pipeline_stages import PipelineStages


class FirstToken(IntEnum):
    """Who hands the first token of a split answer to the client, and when."""

    PREFILL = 0
    """The prompt's instance, at the end of the prompt."""
    TRANSFER = 1
    """The answering instance, once it has the cache."""
    DECODE = 2
    """The answering instance, which computes the prompt's last token again: after one step of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvTransfer:
    """How caches get from instances that compute prompts to those that answer.

    A transfer occupies the ports of both instances. A port serves transfers in turn; none is faster than its own links.
    """

    token_s: Floats
    """(3, N, N) seconds per token from lane a to lane b: of one transfer alone; of a's port; of b's port."""
    fixed_s: Floats
    """(N, N) latency, and states whose size does not depend on the prompt."""
    port: Ints
    """(N,) port of each lane: the stages of one pipeline share one."""
    control_s: float = 0.0
    """From the end of a prompt until the answering instance knows of it; with `early`, from when that has blocks until
    the prompt's instance knows of it."""
    pieces: int = 1
    """Pieces that leave one by one as they are computed: layers. 1: the whole cache at the end of the prompt."""
    chunk: int = 0
    """Tokens of one piece, where a piece is a chunk of the prompt; then `pieces` is not read."""
    early: bool = False
    """Whether the answering instance is chosen, and keeps blocks, before the prompt may begin. (Keeping them while it
    waits elsewhere could leave two instances waiting for each other.)"""
    first: FirstToken = FirstToken.PREFILL
    router: int = 0
    """Rule by which the answering instance is chosen."""

    def __post_init__(self) -> None:
        if (self.pieces > 1 or self.chunk) and not self.early:
            raise ValueError("pieces can leave before the prompt's end only where early holds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """N lanes of P pools. Those that take requests in come first, those that only answer come last."""

    limits: tuple[Limits, ...]
    """By pool. Concurrency, seed, router and how many events are kept are those of the first."""
    tables: Floats
    """(P, 2, G) seconds of an iteration by its computed tokens: whole, and the part that is each rank's own; with
    drafts (P, 4, G), see `kernels.state.Fleet`."""
    pool: Ints
    """(N,) of each lane."""
    prefill_only: Mask
    """(N,) whether a lane computes prompts alone and hands their cache on."""
    entries: int
    """Lanes that take requests in."""
    kv_transfer: KvTransfer | None = None
    overlaps: tuple[Overlap | None, ...] = ()
    """By pool: what techniques save of an iteration; the reference loop reads it."""
    groups: Ints | None = None
    """(G, 2) lanes [from, to) that requests of each `Requests.pool` are routed to: one model, or one kind of device,
    each. None: all lanes that take requests in are one group."""
    stages: tuple[PipelineStages | None, ...] = ()
    """By pool: pipeline stages of its instances. So many neighbouring lanes of a pool as it has stages are one
    pipeline, whose stages their micro-batches pass in turn. None, or nothing: lanes of their own."""

    def __post_init__(self) -> None:
        split = self.kv_transfer is not None
        if self.prefill_only.any() != split or (self.entries < self.lanes) != split:
            raise ValueError("prefill lanes, decode lanes and kv_transfer go together")
        if split and self.groups is not None and len(self.groups) > 1:
            raise ValueError("groups of instances work where each answers what it computes, without kv_transfer")

    @property
    def lanes(self) -> int:
        """How many."""
        return len(self.pool)

    @property
    def lane_groups(self) -> Ints:
        """(G, 2) lanes [from, to) of each group."""
        if self.groups is None:
            return np.array([[0, self.entries]], np.int64)
        return self.groups.astype(np.int64)

    @property
    def pipelines(self) -> Ints | None:
        """(N,) pipeline of each lane, numbered from 0; −1 for lanes of their own. None without pipelines."""
        if all(own is None for own in self.stages):
            return None
        out, count = np.full(self.lanes, -1, np.int64), 0
        for p, own in enumerate(self.stages):
            lanes = np.flatnonzero(self.pool == p)
            if own is not None and len(lanes):
                out[lanes] = count + np.arange(len(lanes)) // own.count
                count = int(out[lanes[-1]]) + 1
        return out

    @property
    def caching(self) -> bool:
        """Whether some pool finds content again."""
        return any(own.caching for own in self.limits)

    @property
    def block(self) -> int:
        """Tokens of a block of those pools; they must agree."""
        return next((own.block for own in self.limits if own.caching), self.limits[0].block)


def single_pool(
    limits: Limits,
    linear_s: Floats,
    lanes: int,
    overlap: Overlap | None = None,
    stages: PipelineStages | None = None,
) -> Fleet:
    """One pool."""
    both = np.stack([linear_s, np.zeros_like(linear_s)]) if linear_s.ndim == 1 else linear_s
    return Fleet(
        limits=(limits,),
        tables=both[None],
        pool=np.zeros(lanes, np.int64),
        prefill_only=np.zeros(lanes, np.bool_),
        entries=lanes,
        kv_transfer=None,
        overlaps=(overlap,),
        stages=(stages,),
    )


_OF_LOOP = ("concurrency", "router", "seed", "every")
"""Limits of the first pool that hold for the whole loop."""


def join_fleets(fleets: Sequence[Fleet]) -> Fleet:
    """Fleets of several deployments side by side in one loop, each a group of its own (`Requests.pool` is its place).

    Models, devices, tables and limits may differ. Lanes keep their order, so that `Outcome.totals` can be split again.

    Args:
        fleets: of the deployments, without KV transfer between pools.

    Raises:
        BadInput: no fleet; caches that move between pools; closed loops, routers, seeds or blocks of prefix caches that
            differ, because one loop has one of each.
    """
    problems = [] if fleets else [Problem("fleets", "must hold at least one fleet")]
    for i, own in enumerate(fleets):
        if own.kv_transfer is not None:
            problems.append(Problem(f"fleets[{i}].kv_transfer", "moves caches between pools; join fleets without any"))
        for name in _OF_LOOP:
            first, value = getattr(fleets[0].limits[0], name), getattr(own.limits[0], name)
            if value != first:
                rule = f"holds for the whole loop and must be that of the first fleet, {first}"
                problems.append(Problem(f"fleets[{i}].limits.{name}", rule, value))
    blocks = [(i, own.block) for i, own in enumerate(fleets) if own.caching]
    for i, block in blocks:
        if block != blocks[0][1]:
            rule = f"must be that of the other fleets with prefix caching, {blocks[0][1]}"
            problems.append(Problem(f"fleets[{i}].limits.block", rule, block))
    if problems:
        raise BadInput(problems)
    pools = np.cumsum([0, *(len(own.limits) for own in fleets)])
    groups, at = [], 0
    for own in fleets:
        groups.append(own.lane_groups + at)
        at += own.lanes
    return Fleet(
        limits=tuple(limits for own in fleets for limits in own.limits),
        tables=stack_tables([table for own in fleets for table in own.tables]),
        pool=np.concatenate([own.pool + first for own, first in zip(fleets, pools[:-1], strict=True)]),
        prefill_only=np.concatenate([own.prefill_only for own in fleets]),
        entries=at,
        overlaps=tuple(x for own in fleets for x in own.overlaps or (None,) * len(own.limits)),
        stages=tuple(x for own in fleets for x in own.stages or (None,) * len(own.limits)),
        groups=np.concatenate(groups),
    )


def stack_tables(tables: Sequence[Floats]) -> Floats:
    """(P, 2, G) of tables of different lengths. Beyond its end a table grows as it does there.

    Where some pool drafts, four rows each: nothing is drafted in the others.
    """
    most, rows = max(t.shape[-1] for t in tables), max(len(t) for t in tables)
    return np.stack([np.pad(extend_table(t, most), ((0, rows - len(t)), (0, 0))) for t in tables])


def extend_table(table: Floats, count: int) -> Floats:
    """A table up to `count` entries.

    Beyond the last entry seconds grow as they do at its end, where products are bound by compute.
    """
    missing = count - table.shape[-1]
    if missing <= 0:
        return table
    back = min(table.shape[-1] - 1, 1024)
    last = table[..., -1:]
    slope = (last - table[..., -1 - back, None]) / max(back, 1)
    return np.concatenate([table, last + slope * np.arange(1, missing + 1)], axis=-1)
