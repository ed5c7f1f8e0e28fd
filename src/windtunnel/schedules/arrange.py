"""Arranges a split-backward schedule by time: list scheduling under an activation limit.

Shared by the automatic schedules (ZB-1p, ZB-2p, ZB-V), which differ in placement and limit.

Each stage, whenever it is free, runs a backward whose gradient has arrived; else a forward that has arrived and fits
in memory; else a weight gradient, if the gap until the next known arrival is worth it. Which gaps are worth it, and
which chunk goes first, are rules of thumb; a few combinations are tried and the shortest result is kept. One slot is
held back for every later chunk of the stage that holds no activation yet, so that the oldest micro-batch can always
move on: no limit leads to a deadlock.

Source: the aim (weight gradients into gaps, forwards up to a memory limit) is that of Qi et al. 2023,
https://arxiv.org/abs/2401.10241, sections 3 and 6; the procedure is our own, so orders differ in detail from theirs.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats, Int32s
from windtunnel.schedules.evaluate import evaluate
from windtunnel.schedules.order import table as make_table
from windtunnel.schedules.table import B, F, InstructionTable, ScheduleCosts, W
from windtunnel.schedules.validate import live_activations


@dataclass(frozen=True, slots=True)
class _Rules:
    gap: float
    """A weight gradient may start if the known gap is at least this part of its duration."""
    newest_chunk_first: bool
    """Between two backwards that are ready: the later chunk (else the one that arrived first)."""
    alternate: bool
    """After a backward it is a forward's turn, even if the next backward is ready."""
    spare_backwards: bool
    """A forward out of turn must not delay a backward that is known to arrive."""
    patience: float
    """Wait this part of a forward's duration for a backward, or a later chunk's forward, that is known to arrive."""


_ONE_CHUNK = (
    _Rules(1.0, True, False, True, 0.0),
    _Rules(0.0, True, False, True, 0.0),
    _Rules(0.0, True, False, False, 0.3),
    _Rules(0.0, True, True, True, 0.0),
)
_CHUNKS = (
    _Rules(0.5, False, True, False, 0.0),
    _Rules(1.0, False, False, False, 0.0),
    _Rules(0.0, False, True, False, 0.3),
)
"""Combinations that are tried. With several chunks orders arranged as if hops took no time are the shorter ones."""


def unit_costs(p: int, v: int) -> ScheduleCosts:
    """One second of F, B and W per stage, no hop: what an order is arranged for when no costs are given."""
    each = np.full((p, v), 1.0 / v)
    return ScheduleCosts(each, each, each, 0.0)


def arrange(
    schedule: str,
    p: int,
    m: int,
    placement: Int32s,
    costs: ScheduleCosts | None,
    max_live: Floats,
    kept_after_backward: float = 1.0,
    candidates: tuple[InstructionTable, ...] = (),
) -> InstructionTable:
    """The best of a few list schedules.

    Args:
        schedule: id written into the table.
        p: stages.
        m: micro-batches.
        placement: (stage, chunk) of each part in depth order.
        costs: seconds; absent means `unit_costs`.
        max_live: shape (p,), activations a stage may hold, in micro-batches of the whole stage; never taken as less
            than one whole micro-batch.
        kept_after_backward: part of an activation that stays from the end of B to the end of W.
        candidates: ready-made orders of the same placement; one wins if it fits the limit and is shorter.
    """
    v = len(placement) // p
    known = costs if costs is not None else unit_costs(p, v)
    arranged_for = known if v == 1 else replace(known, comm_s=0.0)
    best: InstructionTable | None = None
    best_s = np.inf
    for rules in _ONE_CHUNK if v == 1 else _CHUNKS:
        found = _List(schedule, p, m, placement, arranged_for, max_live, kept_after_backward, rules).run()
        took = evaluate(found, known)[2]
        if took < best_s * (1 - 1e-12):
            best, best_s = found, took
    for found in candidates:
        fits = live_activations(found, kept_after_backward) <= np.maximum(max_live, 1.0) + 1e-9
        took = evaluate(found, known)[2]
        if bool(fits.all()) and took < best_s * (1 - 1e-12):
            best, best_s = replace(found, schedule=schedule), took
    assert best is not None
    return best


class _List:
    """One pass of the list scheduler."""

    def __init__(
        self,
        schedule: str,
        p: int,
        m: int,
        placement: Int32s,
        costs: ScheduleCosts,
        max_live: Floats,
        kept: float,
        rules: _Rules,
    ) -> None:
        self.schedule, self.p, self.m, self.placement, self.rules = schedule, p, m, placement, rules
        self.v = len(placement) // p
        self.comm = costs.comm_s
        self.seconds = [costs.forward_s.tolist(), costs.backward_s.tolist(), costs.weight_s.tolist()]
        self.cells: list[tuple[int, int]] = [(int(s), int(c)) for s, c in placement.tolist()]
        self.part = {cell: k for k, cell in enumerate(self.cells)}
        self.limit = [max(float(x) * self.v, float(self.v)) + 1e-9 for x in max_live]  # in chunks
        self.kept = kept
        self.live = [0.0] * p
        self.held = [[0] * self.v for _ in range(p)]  # forwards whose weight gradient has not run
        self.free = [0.0] * p
        self.arrived: list[list[deque[float]]] = [[deque() for _ in range(2 * self.v)] for _ in range(p)]
        self.next = [[0] * (2 * self.v) for _ in range(p)]  # micro-batch, by kind · v + chunk
        self.last = [F] * p
        self.pending: list[deque[tuple[int, int]]] = [deque() for _ in range(p)]
        self.order: list[list[tuple[int, int, int]]] = [[] for _ in range(p)]
        self.events: list[tuple[float, int]] = []

    def run(self) -> InstructionTable:
        first = self.cells[0]
        self.arrived[first[0]][first[1]].extend([0.0] * self.m)
        self.events = [(0.0, first[0])]
        left = 3 * len(self.cells) * self.m
        while left:
            now, s = heapq.heappop(self.events)
            if now < self.free[s]:
                continue  # a wake-up for an arrival while the stage was busy; it looks again when free
            choice = self._choose(s, now)
            if choice is not None:
                self._start(s, now, *choice)
                left -= 1
        return self._table()

    def _choose(self, s: int, now: float) -> tuple[int, int] | None:
        """Kind and chunk to run now, or None to wait for the next wake-up."""
        v, arrived, rules = self.v, self.arrived[s], self.rules
        backwards = [c for c in range(v - 1, -1, -1) if arrived[v + c] and arrived[v + c][0] <= now]
        forwards = [c for c in range(v - 1, -1, -1) if arrived[c] and arrived[c][0] <= now]
        fitting = [c for c in forwards if self._fits(s, c)]
        if backwards and not (rules.alternate and forwards and self.last[s] == B and (fitting or self.pending[s])):
            newest = rules.newest_chunk_first
            return B, backwards[0] if newest else min(backwards, key=lambda c: arrived[v + c][0])
        next_b = min((arrived[v + c][0] for c in range(v) if arrived[v + c]), default=np.inf)
        in_turn = self.last[s] == B or not rules.spare_backwards
        if fitting:
            chunk = fitting[0]
            took = self.seconds[F][s][chunk]
            later = (arrived[c][0] for c in range(chunk + 1, v) if arrived[c] and self._fits(s, c))
            if now < min(min(later, default=np.inf), next_b) < now + rules.patience * took:
                return None  # an operation that others wait for more is about to arrive
            if in_turn or now + took <= next_b + 1e-12:
                return F, chunk
        if not self.pending[s]:
            return None
        chunk = self.pending[s][0][0]
        next_f = min((arrived[c][0] for c in range(v) if arrived[c] and arrived[c][0] > now), default=np.inf)
        gap = min(next_b, next_f) - now
        blocked = bool(forwards) and not fitting and (in_turn or next_b == np.inf)
        if blocked or gap >= rules.gap * self.seconds[W][s][chunk] * (1 - 1e-9):
            return W, chunk
        return None

    def _fits(self, s: int, c: int) -> bool:
        kept_back = sum(1 for later in range(c + 1, self.v) if not self.held[s][later])
        return self.live[s] + 1.0 + kept_back <= self.limit[s]

    def _start(self, s: int, now: float, kind: int, c: int) -> None:
        end = now + self.seconds[kind][s][c]
        self.free[s] = end
        heapq.heappush(self.events, (end, s))
        if kind == W:
            chunk, micro_batch = self.pending[s].popleft()
            self.live[s] -= self.kept
            self.held[s][chunk] -= 1
            self.order[s].append((W, chunk, micro_batch))
            return
        queue = kind * self.v + c
        self.arrived[s][queue].popleft()
        micro_batch = self.next[s][queue]
        self.next[s][queue] += 1
        self.order[s].append((kind, c, micro_batch))
        k = self.part[s, c]
        self.last[s] = kind
        if kind == F:
            self.live[s] += 1.0
            self.held[s][c] += 1
            if k + 1 < len(self.cells):
                self._send(s, *self.cells[k + 1], F, end)
            else:
                self._send(s, s, c, B, end)
        else:
            self.live[s] -= 1.0 - self.kept
            self.pending[s].append((c, micro_batch))
            if k:
                self._send(s, *self.cells[k - 1], B, end)

    def _send(self, sender: int, s: int, c: int, kind: int, end: float) -> None:
        at = end + (self.comm if s != sender else 0.0)
        self.arrived[s][kind * self.v + c].append(at)
        heapq.heappush(self.events, (at, s))

    def _table(self) -> InstructionTable:
        rows = np.asarray(self.order, np.int32)  # every stage has 3·v·m rows
        kind, chunk, micro_batch = rows[:, :, 0].astype(np.int8), rows[:, :, 1], rows[:, :, 2]
        return make_table(self.schedule, self.m, self.v, kind, micro_batch, chunk, self.placement, True)
