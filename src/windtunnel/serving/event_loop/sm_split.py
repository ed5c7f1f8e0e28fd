"""Requests through instances whose prompts and answers run side by side, each phase on its share of the SMs.

Two processes of one instance keep one set of weights and one cache. Each runs iterations of its own phase; while both
run they share the memory's rate as any two tasks of the engine do, and the SMs where their shares add up to more than
all, so that an iteration's speed changes when one of the other phase begins or ends. A prompt's blocks are its
answer's: nothing is moved.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from windtunnel.progress import counting
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.kernels.histogram import add_gaps_in_python
from windtunnel.serving.event_loop.kernels.records import HISTOGRAM_BINS, SERIES, TOTAL
from windtunnel.serving.event_loop.requests import DONE, REJECTED, Requests
from windtunnel.serving.event_loop.run import Outcome
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.iteration.sm_share import SmShare
from windtunnel.specs.sm_split import SmSplitSpec


@dataclass(slots=True, eq=False, kw_only=True)
class Item:
    """One request on its way; tokens and seconds. Names are those that routers read."""

    index: int
    input: int
    output: int
    group: int
    arrival: float
    left: int = 0
    made: int = 0
    stored: int = 0
    blocks: int = 0
    first: float = float("nan")
    scheduled: float = float("nan")
    preemptions: int = 0


@dataclass(slots=True)
class Task:
    """An iteration under way: seconds left at its own speed, and what it asks for then."""

    left_s: float = 0.0
    load: float = 0.0
    """Share of the memory bandwidth that the task asks for."""
    sms: float = 0.0
    """Share of the SMs that the task asks for."""
    begun: float = 0.0
    chunks: list[tuple[Item, int]] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class Half:
    """One instance. `waiting`, `running` and `tokens_to_do` are what routers look at."""

    index: int
    share: float
    line: deque[Item] = field(default_factory=deque)
    prompts: list[Item] = field(default_factory=list)
    decoding: list[Item] = field(default_factory=list)
    used: int = 0
    tokens_to_do: float = 0.0
    at: float = 0.0
    """Time up to which its tasks have run."""
    prefill: Task | None = None
    decode: Task | None = None
    version: int = 0
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    look: float = 0.0

    @property
    def waiting(self) -> int:
        """Queued requests."""
        return len(self.line)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self.prompts) + len(self.decoding)


class Split:
    """The loop."""

    def __init__(
        self,
        requests: Requests,
        limits: Limits,
        instances: int,
        spec: SmSplitSpec,
        priced: Callable[[float], SmShare],
        router: Router,
        objectives: tuple[float, float],
    ) -> None:
        self.requests, self.limits, self.spec, self.priced, self.router = requests, limits, spec, priced, router
        self.ttft_s, self.tpot_s = objectives
        self.halves = [Half(index=k, share=spec.prefill_share, look=spec.period_s) for k in range(instances)]
        self.totals = np.zeros(instances, TOTAL)
        self.histogram = np.zeros(HISTOGRAM_BINS)
        self.rows: list[tuple[float, ...]] = []
        self.order = requests.order()
        self.events: list[tuple[float, int, int, int]] = []
        """(time, 0 arrival or 1 task, request or instance, version)."""
        self.sent = 0

    def run(self) -> Outcome:
        """All requests, served."""
        self._send_first()
        with counting("requests", lambda: (float(np.isfinite(self.requests.finish_s).sum()), len(self.requests))):
            while self.events:
                self._next()
        return Outcome(self.totals, self.histogram, np.array(self.rows, SERIES))

    def _next(self) -> None:
        """What happens next: an arrival, or the end of an iteration."""
        now, what, which, version = heapq.heappop(self.events)
        if what == 0:
            self._arrive(which, now)
            return
        one = self.halves[which]
        if version == one.version:
            self._advance(one, now)
            self._end(one, now)
            self._start(one, now)

    # -- requests ------------------------------------------------------------------------------------------------------
    def _send_first(self) -> None:
        count = min(self.limits.concurrency or len(self.order), len(self.order))
        for i in self.order[:count]:
            at = 0.0 if self.limits.concurrency else float(self.requests.arrival_s[i])
            heapq.heappush(self.events, (at, 0, int(i), 0))
        self.sent = count

    def _arrive(self, i: int, now: float) -> None:
        q = self.requests
        item = Item(
            index=i, input=int(q.input_tokens[i]), output=int(q.output_tokens[i]), group=int(q.group[i]), arrival=now
        )
        q.arrival_s[i] = now
        one = self.halves[self.router.route(self.halves, item)]  # type: ignore[arg-type]
        q.instance[i] = one.index
        if self._blocks(item.input + item.output) > self.limits.blocks:
            q.state[i] = REJECTED
            self._after(i, now)
            return
        one.line.append(item)
        one.tokens_to_do += item.input + item.output
        if one.prefill is None:
            self._advance(one, now)
            self._start(one, now)

    def _after(self, i: int, now: float) -> None:
        q = self.requests
        if q.follow[i] >= 0:
            heapq.heappush(self.events, (now + float(q.delay_s[i]), 0, int(q.follow[i]), 0))
        elif self.limits.concurrency and self.sent < len(self.order):
            heapq.heappush(self.events, (now + float(q.delay_s[i]), 0, int(self.order[self.sent]), 0))
            self.sent += 1

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block)

    # -- time ----------------------------------------------------------------------------------------------------------
    def _speed(self, one: Half) -> float:
        """Speed of both tasks, below 1 where together they ask for more than the memory gives or than there are SMs."""
        tasks = [t for t in (one.prefill, one.decode) if t]
        both = max(sum(t.load for t in tasks), sum(t.sms for t in tasks))
        return 1.0 / both if both > 1.0 else 1.0

    def _advance(self, one: Half, now: float) -> None:
        past = now - one.at
        if past > 0.0:
            speed, total = self._speed(one), self.totals[one.index]
            for task in (one.prefill, one.decode):
                if task:
                    task.left_s = max(task.left_s - past * speed, 0.0)
            if one.prefill or one.decode:
                total["busy_s"] += past
            total["running_s"] += past * one.running
            total["used_s"] += past * one.used
        one.at = now

    def _plan(self, one: Half) -> None:
        """When the next of its tasks ends."""
        one.version += 1
        left = [t.left_s for t in (one.prefill, one.decode) if t]
        if left:
            heapq.heappush(self.events, (one.at + min(left) / self._speed(one), 1, one.index, one.version))

    # -- phases --------------------------------------------------------------------------------------------------------
    def _start(self, one: Half, now: float) -> None:
        pause = self._move(one, now)
        if one.prefill is None:
            one.prefill = self._form_prompts(one, now)
        if one.decode is None and one.decoding:
            one.decode = self._form_step(one, now)
        for task in (one.prefill, one.decode):
            if task and pause:
                task.left_s += pause
        total = self.totals[one.index]
        total["kv_max"], total["running_max"] = max(total["kv_max"], one.used), max(total["running_max"], one.running)
        self._plan(one)

    def _form_prompts(self, one: Half, now: float) -> Task | None:
        limits, chunks, budget = self.limits, list[tuple[Item, int]](), self.limits.budget
        for q in one.prompts:
            c = min(q.left, budget) if limits.chunked else q.left
            if c <= 0 or (not limits.chunked and chunks and c > budget):
                break
            chunks.append((q, c))
            budget -= c
        while one.line and budget > 0 and one.running < limits.max_seqs:
            q = one.line[0]
            need = self._blocks(q.input + q.made)
            if one.used + need + (limits.watermark if one.running else 0) > limits.blocks:
                break
            if not limits.chunked and chunks and q.input + q.made > budget:
                break
            one.line.popleft()
            q.left, q.blocks = q.input + q.made, need
            one.used += need
            if np.isnan(q.scheduled):
                q.scheduled = now
            one.prompts.append(q)
            c = min(q.left, budget) if limits.chunked else q.left
            chunks.append((q, c))
            budget -= c
        if not chunks:
            return None
        tokens = sum(c for _, c in chunks)
        pairs = sum(float(c) * (q.input + q.made - q.left) + 0.5 * float(c) * c for q, c in chunks)
        p = self.priced(one.share)
        seconds = p.iteration.seconds(tokens, pairs=pairs, prompt_tokens=tokens, sequences=len(chunks))
        total = self.totals[one.index]
        total["iterations"] += 1
        total["prompt_iterations"] += 1
        total["prompt_tokens"] += tokens
        total["prompt_pairs"] += pairs
        attention_s = pairs * p.iteration.prefill_pair_s + tokens * p.iteration.prefill_token_s
        return Task(seconds, p.load(tokens, seconds, 0.0), p.sms(tokens, seconds, attention_s, 0.0), now, chunks)

    def _form_step(self, one: Half, now: float) -> Task | None:
        while one.decoding:
            need = sum(self._blocks(q.stored + 1) - q.blocks for q in one.decoding)
            if one.used + need <= self.limits.blocks or len(one.decoding) == 1:
                break
            q = one.decoding.pop()
            one.used -= q.blocks
            q.preemptions, q.blocks = q.preemptions + 1, 0
            self.totals[one.index]["preemptions"] += 1
            one.line.appendleft(q)
        for q in one.decoding:
            grown = self._blocks(q.stored + 1)
            one.used += grown - q.blocks
            q.blocks = grown
        count, kv = len(one.decoding), sum(q.stored + 1 for q in one.decoding)
        p = self.priced(self.spec.for_answers(one.share))
        window = sum(min(q.stored + 1, p.iteration.window) for q in one.decoding) if p.iteration.window else 0
        seconds = p.iteration.seconds(count, kv=kv, window_kv=window, sequences=count)
        read = kv * p.iteration.decode_kv_s + window * p.iteration.window_kv_s
        total = self.totals[one.index]
        total["iterations"] += 1
        total["decode_tokens"] += count
        total["kv_tokens"] += kv
        held = p.sms(count, seconds, 0.0, read)
        return Task(seconds, p.load(count, seconds, read), held, now, [(q, 1) for q in one.decoding])

    def _end(self, one: Half, now: float) -> None:
        ended: list[Item] = []
        row = len(one.decoding), len(one.prompts), one.waiting, one.used, one.index
        if one.decode and one.decode.left_s <= 1e-12:
            took = now - one.decode.begun
            steps, one.decode = one.decode.chunks, None
            add_gaps_in_python(self.histogram, max(took, 1e-12), 0.0, 1, len(steps))
            self._keep(now - took, took, row)
            for q, _ in steps:
                q.made, q.stored = q.made + 1, q.stored + 1
            ended += [q for q, _ in steps if q.made >= q.output]
        if one.prefill and one.prefill.left_s <= 1e-12:
            self._keep(one.prefill.begun, now - one.prefill.begun, row)
            chunks, one.prefill = one.prefill.chunks, None
            for q, c in chunks:
                q.left -= c
                if q.left:
                    continue
                one.prompts.remove(q)
                q.stored = q.input + q.made
                if not q.made:
                    q.first = now
                    one.ttft.append(now - q.arrival)
                q.made += 1
                if q.made >= q.output:
                    ended.append(q)
                else:
                    one.decoding.append(q)
        for q in ended:
            self._finish(one, q, now)

    def _finish(self, one: Half, q: Item, now: float) -> None:
        if q in one.decoding:
            one.decoding.remove(q)
        one.used -= q.blocks
        one.tokens_to_do -= q.input + q.output
        if q.output > 1:
            one.tpot.append((now - q.first) / (q.output - 1))
        r, i = self.requests, q.index
        r.scheduled_s[i], r.first_token_s[i], r.finish_s[i] = q.scheduled, q.first, now
        r.preemptions[i], r.state[i] = q.preemptions, DONE
        self._after(i, now)

    def _keep(self, start: float, seconds: float, row: tuple[int, ...]) -> None:
        if self.limits.every and len(self.rows) < 2_000_000:
            self.rows.append((start, seconds, 1, *row))

    def _move(self, one: Half, now: float) -> float:
        """Shares follow the objectives; returns what the change costs."""
        spec = self.spec
        if spec.controller == "fixed" or now < one.look:
            return 0.0
        one.look = now + spec.period_s
        late = [np.mean(x) / limit if x else 0.0 for x, limit in ((one.ttft, self.ttft_s), (one.tpot, self.tpot_s))]
        if not one.ttft and one.line:
            late[0] = (now - one.line[0].arrival) / self.ttft_s
        one.ttft.clear()
        one.tpot.clear()
        to = one.share + (spec.step if late[0] > late[1] else -spec.step)
        to = round(min(max(to, spec.step), 1.0 - spec.step if spec.decode_share is None else 1.0), 6)
        if to == one.share or max(late) < 0.5:
            return 0.0
        one.share = to
        return spec.switch_s


def serve(
    requests: Requests,
    limits: Limits,
    instances: int,
    spec: SmSplitSpec,
    priced: Callable[[float], SmShare],
    router: Router,
    objectives: tuple[float, float],
) -> Outcome:
    """Run all requests and write their times into `requests`.

    Args:
        requests: see `loop.serve`.
        limits: of each instance.
        instances: how many.
        spec: shares of the SMs.
        priced: iterations on a share of the SMs.
        router: which instance a request goes to.
        objectives: seconds to the first token and between tokens that shares follow.
    """
    return Split(requests, limits, instances, spec, priced, router, objectives).run()
