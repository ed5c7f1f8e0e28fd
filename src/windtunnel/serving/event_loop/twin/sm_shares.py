"""Prompts and answers of one instance side by side, each phase on its share of the SMs: a rule of the reference loop.

Two processes keep one set of weights and one cache. Each runs iterations of its own phase; while both run they share
the memory's rate as any two tasks of the engine do, and the SMs where their shares add up to more than all, so that an
iteration's speed changes when one of the other phase begins or ends. A prompt's blocks are its answer's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.twin.batch_policy import Policy
from windtunnel.serving.event_loop.twin.completion import complete, drop, make_room, take_back
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.kv_memory import Memory
from windtunnel.serving.event_loop.twin.request import Batch, Request
from windtunnel.serving.iteration.sm_share import SmShare
from windtunnel.specs.sm_split import SmSplitSpec


@dataclass(slots=True)
class Task:
    """An iteration under way: seconds left at its own speed, and what it asks for then."""

    left_s: float
    load: float
    """Share of the memory bandwidth that the task asks for."""
    sms: float
    """Share of the SMs that the task asks for."""
    begun: float


class SmShares:
    """Both phases of one instance. Its `ready` are requests whose prompt ended while a decode step is under way.

    Args:
        spec: shares of the SMs.
        priced: iterations on a share of the SMs.
        objectives: seconds to the first token and between tokens that shares follow.
        memory: levels of the cache below the device.
    """

    def __init__(
        self,
        spec: SmSplitSpec,
        priced: Callable[[float], SmShare],
        objectives: tuple[float, float],
        memory: Memory | None,
    ) -> None:
        self.spec, self.priced, self.memory = spec, priced, memory
        self.ttft_s, self.tpot_s = objectives
        self.share, self.look = spec.prefill_share, spec.period_s
        self.prefill: Task | None = None
        self.decode: Task | None = None
        self.at = 0.0
        """Time up to which the tasks have run."""
        self.ttft: list[float] = []
        self.tpot: list[float] = []

    def wake(self, one: Instance, now: float, policy: Policy, record: Recorder | None) -> None:
        """Requests came, or room: prompts may begin."""
        if self.prefill is None:
            self._advance(one, now, record)
            self.form(one, now, policy, record)

    # -- time ----------------------------------------------------------------------------------------------------------
    @property
    def _tasks(self) -> list[Task]:
        return [task for task in (self.prefill, self.decode) if task]

    def _speed(self) -> float:
        """Speed of both tasks, below 1 where together they ask for more than the memory gives or than there are SMs."""
        tasks = self._tasks
        both = max(sum(t.load for t in tasks), sum(t.sms for t in tasks))
        return 1.0 / both if both > 1.0 else 1.0

    def _advance(self, one: Instance, now: float, record: Recorder | None) -> None:
        past = now - self.at
        if past > 0.0:
            speed, tasks = self._speed(), self._tasks
            for task in tasks:
                task.left_s = max(task.left_s - past * speed, 0.0)
            if record is not None:
                record.ran(one, past if tasks else 0.0, past * one.running, past * one.used)
        self.at = now

    def _is_over(self, task: Task) -> bool:
        """Whether nothing is left, or less than the clock can tell."""
        return task.left_s <= 1e-12 or self.at + task.left_s == self.at

    # -- phases --------------------------------------------------------------------------------------------------------
    def complete(self, one: Instance, now: float, record: Recorder | None) -> list[Request]:
        """End what is over of both phases; returns the requests that ended with it."""
        self._advance(one, now, record)
        step, prompts = (t if t and self._is_over(t) else None for t in (self.decode, self.prefill))
        chunks, stepped, cancelled = one.chunks, list(one.decoding), one.cancelled
        if record is not None:
            batch = len(one.decoding) + len(one.ready), len(one.prompts), one.waiting, one.used
            if step:
                took = now - step.begun
                record.step(max(took, 1e-12), len(stepped))
                record.event(one, now - took, took, batch)
            if prompts:
                record.event(one, prompts.begun, now - prompts.begun, batch)
        one.steps, one.chunks, one.cancelled = int(step is not None), chunks if prompts else [], []
        ended = complete(one, now, record, counts=False) if step or prompts else []
        self.ttft += [now - q.arrival for q, _ in one.chunks if q.made == 1 and q.first == now]
        self.tpot += [(now - q.first) / (q.output - 1) for q in stepped if step and q.over and q.output > 1]
        one.chunks = [] if prompts else chunks
        self.prefill, self.decode = None if prompts else self.prefill, None if step else self.decode
        kept = sum(not q.over for q in stepped)
        one.ready += one.decoding[kept:]
        del one.decoding[kept:]
        if self.decode is None:
            one.decoding, one.ready = one.decoding + one.ready, []
        return ended + self._cancel(one, cancelled, now)

    def _cancel(self, one: Instance, cancelled: list[Request], now: float) -> list[Request]:
        """Drop requests that were taken back and that no task under way computes."""
        under_way = {q.index for q, _ in one.chunks} | {q.index for q in one.ready}
        under_way |= {q.index for q in one.decoding} if self.decode else set()
        one.cancelled = [q for q in cancelled if q.index in under_way and not q.over]
        ended = [q for q in reversed(cancelled) if q.index not in under_way and not q.over]
        for q in ended:
            drop(one, q, now)
            if one.pins is not None:
                one.pins.keep_or_drop(one, q)
        return ended

    def form(self, one: Instance, now: float, policy: Policy, record: Recorder | None) -> None:
        """Start the phases that are free."""
        one.now = now
        pause_s = self._move(one, now)
        while self.decode is None and (q := one.queue.yields(one)) is not None and q in one.decoding:
            take_back(one, q, record)
        tokens, pairs = 0, 0.0
        if self.prefill is None:
            before = len(one.admitted)
            batch = policy.form_batch(one, now, may_admit=True)
            one.chunks = batch.chunks
            if record is not None:
                for q in one.admitted[before:]:
                    if q.scheduled == now and not q.preemptions:
                        record.entered(one, q)
            if batch.chunks:
                tokens = sum(c for _, c in batch.chunks)
                pairs = sum(one.pairs(q, c) for q, c in batch.chunks)
                self.prefill = self._prompts(one, batch, tokens, pairs)
                if record is not None:
                    record.iteration(one, 0, 0)
        if self.decode is None and one.decoding:
            make_room(one, policy, record, fixed=one.prompts)
            self.decode = self._step(one, record)
        for task in self._tasks:
            task.left_s += pause_s
        if record is not None:
            record.formed(one, tokens, pairs)
        left = [task.left_s for task in self._tasks]
        one.mode = "iteration" if left else "idle"
        one.busy_until = self.at + min(left) / self._speed() if left else float("inf")

    def _prompts(self, one: Instance, batch: Batch, tokens: int, pairs: float) -> Task:
        p, count = self.priced(self.share), len(batch.chunks)
        seconds = p.iteration.seconds(tokens, pairs=pairs, prompt_tokens=tokens, sequences=count)
        seconds += one.limits.swap_block_s * batch.moved
        if self.memory is not None:
            seconds = self.memory.seconds(one, seconds, one.now)
        attention_s = pairs * p.iteration.prefill_pair_s + tokens * p.iteration.prefill_token_s
        return Task(seconds, p.load(tokens, seconds, 0.0), p.sms(tokens, seconds, attention_s, 0.0), one.now)

    def _step(self, one: Instance, record: Recorder | None) -> Task:
        """A decode step; its blocks are taken now, since prompts are admitted while it runs."""
        if not one.limits.reserve:
            for q in one.decoding:
                grown = one.blocks(q.stored + 1)
                one.used, q.blocks = one.used + grown - q.blocks, grown
        if one.cache is not None:
            one.cache.evict(one.capacity - one.used)
        p = self.priced(self.spec.for_answers(self.share))
        count, kv, most = len(one.decoding), sum(q.stored + 1 for q in one.decoding), p.iteration.window
        window = sum(min(q.stored + 1, most) for q in one.decoding) if most else 0
        seconds = p.iteration.seconds(count, kv=kv, window_kv=window, sequences=count)
        read_s = kv * p.iteration.decode_kv_s + window * p.iteration.window_kv_s
        if record is not None:
            record.iteration(one, count, kv)
        return Task(seconds, p.load(count, seconds, read_s), p.sms(count, seconds, 0.0, read_s), one.now)

    def _move(self, one: Instance, now: float) -> float:
        """Shares follow the objectives; returns what the change costs."""
        spec = self.spec
        if spec.controller == "fixed" or now < self.look:
            return 0.0
        self.look = now + spec.period_s
        late = [np.mean(x) / limit if x else 0.0 for x, limit in ((self.ttft, self.ttft_s), (self.tpot, self.tpot_s))]
        if not self.ttft and (q := one.next_in_line()) is not None:
            late[0] = (now - q.arrival) / self.ttft_s
        self.ttft.clear()
        self.tpot.clear()
        to = self.share + (spec.step if late[0] > late[1] else -spec.step)
        to = round(min(max(to, spec.step), 1.0 - spec.step if spec.decode_share is None else 1.0), 6)
        if to == self.share or max(late) < 0.5:
            return 0.0
        self.share = to
        return spec.switch_s
