"""Caches between instances, for the reference loop: a prompt ends on one instance, its answer begins on another."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.serving.event_loop.fleet import FirstToken
from windtunnel.serving.event_loop.instance_limits import Router as RouterId
from windtunnel.serving.event_loop.twin.router import Router

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.reference import ReferenceLoop
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


class Answers:
    """Answers of prompts that another instance computes: each waits, holds blocks and leaves on its own instance."""

    def __init__(self, loop: ReferenceLoop) -> None:
        assert loop.fleet.kv_transfer is not None
        self.loop, self.rule = loop, loop.fleet.kv_transfer
        self.half = len(loop.all)
        self.waiting = loop.instances[loop.fleet.entries :]
        self.router = Router(RouterId(self.rule.router), loop.limits.seed + 1)
        self.free_s = [0.0] * (int(self.rule.port.max()) + 1)
        """When each port is free."""
        self.full = [q.output for q in loop.all]

    def split(self, one: Instance, q: Request) -> None:
        """A request came: where its instance hands on, the answer becomes a request of its own."""
        q.output, q.answer = self.full[q.index], None
        if not one.prefill_only or self.loop.router.keeps(one, q):
            return
        if q.output > 1 or self.rule.first is FirstToken.DECODE:
            made = 0 if self.rule.first is FirstToken.DECODE else 1
            nan = float("nan")
            q.answer = replace(
                q,
                index=self.half + q.index,
                arrival=nan,
                made=made,
                remote=True,
                chain=(),
                prompt=q,
                instance=-1,
                cached=0,
            )
        q.output = 1

    def foreseen(self, q: Request) -> bool:
        """Whether the answer has found an instance, where that is chosen before the prompt is computed."""
        return q.answer is None or not self.rule.early or self._ask(q.answer)

    def told_first(self, q: Request) -> int:
        """The instance that hears of a request first where that is the one that answers; else −1."""
        return q.answer.instance if q.answer is not None and self.rule.early else -1

    def _ask(self, q: Request) -> bool:
        one = self.waiting[self.router.route(self.waiting, q)]
        q.instance = one.index
        if self.loop.too_long(one, q):
            q.rejected = True
            return False
        one.tokens_to_do += q.input + q.output
        one.queue.arrive(one, q)
        one.asked += q.input
        return True

    def prompt_ended(self, p: Request, now: float) -> None:
        """A prompt is computed: its answer is told, or (told before) its cache leaves."""
        q = p.answer
        assert q is not None
        if not self.rule.early:
            self._file(q.index, now + self.rule.control_s)
            return
        pieces = self.rule.pieces
        if self.rule.chunk:
            pieces = max(-(-(p.input - p.hit) // self.rule.chunk), 1)
        self._move(q, p.scheduled + (now - p.scheduled) / pieces, pieces, now)

    def kept(self, fresh: list[Request], now: float) -> None:
        """Answers that have just got blocks: caches leave now, or (told first) their prompts may begin."""
        for q in fresh:
            if self.rule.early:
                self._file(q.index, now + self.rule.control_s)
            else:
                self._move(q, now, 1, now)

    def _move(self, q: Request, begin: float, pieces: int, now: float) -> None:
        assert q.prompt is not None
        a, b, limits = q.prompt.instance, q.instance, self.loop.instances[q.instance].limits
        tokens = float(q.input) + limits.window_share * float(min(q.input, limits.window))
        each, fixed, port, free = self.rule.token_s, float(self.rule.fixed_s[a, b]), self.rule.port, self.free_s
        alone = fixed + float(each[0, a, b]) * tokens
        free[port[a]] = max(free[port[a]], begin) + float(each[1, a, b]) * tokens
        free[port[b]] = max(free[port[b]], begin) + float(each[2, a, b]) * tokens
        end = max(begin + alone, free[port[a]], free[port[b]])
        self._file(q.index + self.half, max(end, now + fixed + (alone - fixed) / pieces))

    def event(self, i: int, now: float) -> list[int]:
        """Pass on what one instance tells another; returns the instances that this touches."""
        q = self.loop.all[i % self.half].answer
        assert q is not None and q.prompt is not None
        p = q.prompt
        if i < 2 * self.half and self.rule.early:
            one = self.loop.instances[p.instance]
            one.promised -= 1
            one.queue.arrive(one, p)
            one.asked += p.input
            return [p.instance]
        if i < 2 * self.half:
            if self._ask(q):
                return [q.instance]
            p.rejected = True
        else:
            one = self.loop.instances[q.instance]
            one.moving.remove(q)
            one.ready.append(q)
            q.arrival = now
        self.loop.instances[p.instance].leave(p, p.stored)
        if p.rejected:
            self.loop.arrivals.follow_up(p, now)
            return [p.instance]
        return [q.instance, p.instance]

    def join(self, one: Instance, now: float) -> None:
        """Answers whose cache has come decode from now on."""
        one.joined = one.ready
        one.ready = []
        for q in one.joined:
            q.remote = False
            q.stored = q.input + q.made - 1
            q.held = min(q.stored + 1 + (q.output - q.made) // 2, one.limits.window)
            one.decoding.append(q)
            one.admitted.append(q)
            if self.rule.first is FirstToken.TRANSFER:
                q.first = now

    def started(self, one: Instance, now: float) -> None:
        """The first step of answers that have just joined: their first token, or the time since it, which has a bin."""
        if one.mode == "idle" or not one.steps:
            return
        record = self.loop.record
        for q in one.joined:
            if q not in one.decoding:
                continue
            if q.made == 0:
                q.first = now + one.step_s
                gap = None
            elif not np.isnan(q.first):
                continue
            else:
                assert q.prompt is not None
                gap = now + one.step_s - q.prompt.first
            if record is not None:
                record.first_step(one.step_s, gap)

    def _file(self, i: int, at: float) -> None:
        heapq.heappush(self.loop.later, (at, i))
