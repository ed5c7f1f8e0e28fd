"""The plain twin of `kernels.py`, and the loop that runs policies and routers written in Python.

Same events, same arithmetic, same results; slower. A policy of one's own overrides hooks of `Policy` and `Router`
(`serving/twin/`); the built-in ones are the switches that the jitted loop has.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.serving.control import Control
from windtunnel.serving.dependencies import Waits
from windtunnel.serving.fleet import FirstToken, Fleet, alike
from windtunnel.serving.handover import Answers
from windtunnel.serving.limits import Limits
from windtunnel.serving.limits import Router as RouterId
from windtunnel.serving.overlap import Overlap
from windtunnel.serving.prefix_cache import PrefixCache
from windtunnel.serving.prefixes import Chains, chains_of
from windtunnel.serving.queues.base import Queue
from windtunnel.serving.recorder import Recorder
from windtunnel.serving.requests import DONE, REJECTED, SHED, Floats, Requests
from windtunnel.serving.swaps import NUMBERS
from windtunnel.serving.twin.admission import Admission
from windtunnel.serving.twin.instance import EXPECTED_MOST, MILLION, Instance
from windtunnel.serving.twin.policy import Policy
from windtunnel.serving.twin.request import Batch, Request
from windtunnel.serving.twin.router import Router

if TYPE_CHECKING:
    from windtunnel.serving.speculation.varied import Pace
    from windtunnel.serving.tiers.memory import Memory

__all__ = [
    "EXPECTED_MOST", "MILLION", "Admission", "Batch", "Instance", "Policy", "Request", "Router", "RouterId", "Twin",
    "alike", "serve", "serve_fleet",
]  # fmt: skip


class Twin:
    """The loop. `jumps=False` takes decode steps one by one, which must change nothing but rounding."""

    def __init__(
        self, requests: Requests, fleet: Fleet, *, policies: Sequence[Policy] | None = None,
        router: Router | None = None, jumps: bool = True, chains: Chains | None = None, record: Recorder | None = None,
        queue: Queue | None = None, admission: Admission | None = None, pace: Pace | None = None,
        control: Control | None = None, memory: Memory | None = None,
    ) -> None:  # fmt: skip
        self.pace, self.control, self.memory = pace, control, memory
        self.all = [
            Request(
                i, int(requests.input_tokens[i]), int(requests.output_tokens[i]), int(requests.cached_tokens[i]),
                int(requests.priority[i]), int(requests.group[i]), float(requests.arrival_s[i]),
                float(requests.delay_s[i]), int(requests.follow[i]), tenant=int(requests.tenant[i]),
            )
            for i in range(len(requests))
        ]  # fmt: skip
        self.fleet, limits = fleet, fleet.limits[0]
        self.limits = limits
        """Of the first pool: what holds for the loop as a whole."""
        self.queue, self.admission = queue or Queue(), admission
        self.swaps = self.queue.swaps
        own = [fleet.limits[p] for p in fleet.pool]
        self.instances = [
            Instance(k, own[k], ratio=own[k].ratio_start, queue=self.queue, hands=bool(fleet.hands[k]))
            for k in range(fleet.lanes)
        ]  # fmt: skip
        for one, p in zip(self.instances, fleet.pool, strict=True):
            one.ahead = one.limits.step_tokens if pace else 0
            one.linear = fleet.tables[p, 0]
            one.overlap = fleet.overlaps[p] if fleet.overlaps else None
        self.entries = self.instances[: fleet.entries]
        for one in self.instances[fleet.entries :]:
            one.answers_only = True
        if fleet.caching:
            chains = chains or chains_of(requests, fleet.block)
            for q in self.all:
                q.chain = tuple(chains.nodes[chains.start[q.index] : chains.start[q.index + 1]].tolist())
            for one in self.instances:
                if one.limits.caching:
                    own_cache = memory.cache(one, chains.size.tolist()) if memory else None
                    one.cache = own_cache or PrefixCache(chains.size.tolist())
        self.policies, self.jumps = policies or [Policy() for _ in fleet.limits], jumps
        self.router = router or Router(RouterId(limits.router), limits.seed)
        self.record = record
        self.order: list[int] = requests.order().tolist()
        self.waits = None if requests.after is None else Waits(requests.after)
        self.sent = 0
        self.later: list[tuple[float, int]] = []
        """Events to come: a request by its number; further numbers are the handover's, those below 0 the control's."""
        self.answers = Answers(self) if fleet.handover else None

    def policy(self, one: Instance) -> Policy:
        """Of an instance's pool."""
        return self.policies[int(self.fleet.pool[one.index])]

    def run(self) -> list[Request]:
        """All requests, served."""
        limits = self.limits
        self.queue.begin(self.instances)
        self.router.begin(self.instances)
        if self.admission is not None:
            self.admission.begin(self.instances)
        if self.control is not None:
            self.control.begin(self)
        if self.memory is not None:
            self.memory.begin(self.instances)
        if limits.concurrency:
            for _ in range(limits.concurrency):
                self.later += [(0.0, i) for i in self._next_heads()]
            heapq.heapify(self.later)
        while True:
            one = min(self.instances, key=lambda x: (x.busy_until, x.index))
            arrival = self._next_arrival()
            if arrival == one.busy_until == float("inf"):
                return self.all
            if arrival < one.busy_until:
                fresh: set[int] = set()
                while self._next_arrival() <= arrival:
                    fresh.update(self._event(self._pop(), arrival))
                for k in sorted(fresh):
                    self._wake(self.instances[k], arrival)
                continue
            now = one.busy_until
            for q in self._complete(one, now):
                one.tokens_to_do -= q.input + q.output
                self.queue.ended(one, q)
                if self.swaps is not None:
                    self.swaps.ended(one, q)
                if one.index < self.fleet.entries:
                    self.router.ended(one, q)
                if self.admission is not None:
                    origin = q.prompt or q
                    self.admission.ended(self.instances[origin.instance], origin)
                if self.answers is not None and q.answer is not None:
                    self.answers.prompt_ended(q, now)
                else:
                    self.follow_up(q, now)
            fresh = set()
            while self.later and self.later[0][0] <= now:
                fresh.update(self._event(heapq.heappop(self.later)[1], now))
            for k in sorted(fresh - {one.index}):
                self._wake(self.instances[k], now)
            if self.control is not None:
                self.control.completed(one, now)
            self._form(one, now)
            if one.lending is not None:
                for other in one.lending.starved():
                    self._wake(other, now)

    # -- arrivals ------------------------------------------------------------------------------------------------------
    def _clocked(self) -> float:
        if self.limits.concurrency or self.sent >= len(self.order):
            return float("inf")
        return self.all[self.order[self.sent]].arrival

    def _next_arrival(self) -> float:
        return min(self._clocked(), self.later[0][0] if self.later else float("inf"))

    def _pop(self) -> int:
        if self.later and self.later[0][0] < self._clocked():
            return heapq.heappop(self.later)[1]
        self.sent += 1
        return self.order[self.sent - 1]

    def _event(self, i: int, now: float) -> list[int]:
        """What happens at an instant; returns the instances that it touches, in the order that they are told."""
        if i < -NUMBERS:
            q = self.all[-1 - NUMBERS - i]
            one = self.instances[q.instance]
            one.moving.remove(q)
            one.ready.append(q)
            return [q.instance]
        if i < 0:
            assert self.control is not None
            return self.control.event(-1 - i, now)
        if i >= len(self.all):
            assert self.answers is not None
            return self.answers.event(i, now)
        q = self.all[i]
        q.arrival = now
        return self.arrive(q, now)

    def arrive(self, q: Request, now: float) -> list[int]:
        """A request comes, or (kept by the control) can be sent at last; returns the instances that hear of it."""
        if self.control is not None and not self.control.takes(q, now):
            return []
        place = self.router.route(self.entries, q)
        k = self.entries[place].index if place < len(self.entries) else place  # beyond them: one that only answers
        q.instance = k
        one = self.instances[k]
        if self.answers is not None:
            self.answers.split(one, q)
        if self.too_long(one, q):
            q.rejected = True
            self.follow_up(q, now)
            return []
        one.now = now
        if self.admission is not None and not self.admission.accepts(one, q, now):
            q.shed = True
            self.follow_up(q, now)
            return []
        if self.answers is not None and not self.answers.foreseen(q):
            q.rejected = True
            self.follow_up(q, now)
            return []
        one.tokens_to_do += q.input + q.output
        if self.answers is not None and (told := self.answers.told_first(q)) >= 0:
            one.promised += 1
            return [told]
        self.queue.arrive(one, q)
        if self.memory is not None:
            self.memory.arrived(one, q, now)
        one.asked += q.input
        return [k]

    def too_long(self, one: Instance, q: Request) -> bool:
        """Whether an instance's cache could never hold a request."""
        limits = one.limits
        most = max(q.input + q.output, limits.reserve_length if limits.reserve else 0)
        over = one.blocks(most + 2 * limits.lookahead) + one.extra(q) - limits.blocks
        return over > 0 and (one.lending is None or not one.lending.could(one, over))

    def follow_up(self, q: Request, now: float) -> None:
        """What an answer brings on: calls that waited for it, the next turn, or the next request of a closed loop."""
        if self.waits is not None:
            ready, over = self.waits.ended((q.prompt or q).index)
            for i in ready:
                heapq.heappush(self.later, (now + self.all[i].delay, i))
            if not over:
                return
        if q.follow >= 0:
            heapq.heappush(self.later, (now + q.delay, q.follow))
        elif self.limits.concurrency and self.sent < len(self.order):
            pause = q.delay if self.waits is None else 0.0
            for i in self._next_heads():
                heapq.heappush(self.later, (now + pause, i))

    def _next_heads(self) -> list[int]:
        """Of a closed loop: the next request, or all those that the next task begins with."""
        at, order, waits = self.sent, self.order, self.waits
        if at < len(order):
            self.sent += 1
        while waits and at < self.sent < len(order) and waits.task[order[self.sent]] == waits.task[order[at]]:
            self.sent += 1
        return [int(i) for i in order[at : self.sent]]

    # -- one instance --------------------------------------------------------------------------------------------------
    def _wake(self, one: Instance, now: float) -> None:
        if one.mode == "idle":
            self._form(one, now)
        elif one.mode == "run":
            self._shorten(one, now)

    def _may_enter(self, one: Instance) -> bool:
        if self.queue.yields(one) is not None:
            return True
        q = one.next_in_line()
        if q is None or one.running >= one.limits.max_seqs or (one.limits.static and one.running):
            return False
        return bool(one.limits.ratio_start) or self.policy(one).fits(one, q)

    def _form(self, one: Instance, now: float) -> None:
        limits = one.limits
        tables = self.fleet.tables[self.fleet.pool[one.index]]
        linear, own, drafts = tables[0], tables[1], tables[2:]
        preempted = False
        one.now = now
        if one.lending is not None:
            one.lending.settle(one)
        if self.answers is not None:
            self.answers.join(one, now)
        if self.swaps is not None:
            self.swaps.join(one)
        while (q := self.queue.yields(one)) is not None:
            self._take_back(one, q)
        while one.decoding:
            need = one.growth()
            if preempted and len(one.decoding) > 1:
                need = max(need, one.blocks(len(one.decoding) * limits.retract))
            if limits.reserve or one.room(need):
                break
            self._take_back(one, self.policy(one).preempt(one))
            preempted = True
        if preempted and limits.ratio_start:
            made = sum(q.made for q in one.decoding) + limits.retract * len(one.decoding)
            one.ratio = min(MILLION, made * MILLION // (1 + sum(q.output for q in one.decoding)))
        looks = limits.poll <= 1 or not one.decoding or one.polled == 0
        before, moving = len(one.admitted), len(one.moving)
        batch = self.policy(one).form_batch(one, now, may_admit=looks and not preempted)
        if self.record is not None:
            for q in one.admitted[before:]:
                if q.scheduled == now and not q.preemptions:
                    self.record.entered(one, q)
            pairs = sum(one.pairs(q, c) for q, c in batch.chunks)
            self.record.formed(one, sum(c for _, c in batch.chunks), pairs)
        if self.answers is not None:
            self.answers.kept(one.moving[moving:], now)
        while one.coming:
            at, i = one.coming.pop()
            heapq.heappush(self.later, (at, -1 - NUMBERS - i))
        stall_s, one.stall_s = one.stall_s, 0.0
        one.start, one.chunks = now, batch.chunks
        kv = one.kv()
        window = sum(q.held for q in one.decoding)
        if batch.chunks:
            tokens = sum(c for _, c in batch.chunks)
            pairs = 0.0
            for q, c in batch.chunks:
                pairs += one.pairs(q, c)
            decoding = len(one.decoding) if batch.decodes else 0
            beside = decoding * limits.step_tokens
            each_rank = -(-tokens // limits.cp)
            seconds = linear[each_rank + beside] + limits.prompt_token * tokens
            seconds += limits.pair * pairs
            if limits.ranks > 1:
                count = len(batch.chunks)
                each = -(-count // limits.ranks)
                even = min(tokens * each * limits.ranks // count, len(linear) - 1 - beside)
                seconds += own[even + beside] - own[tokens + beside]
                seconds += limits.pair * pairs * (each * limits.ranks / count - 1.0)
            seconds += limits.per_sequence * (decoding + len(batch.chunks)) + limits.swap_block * batch.moved
            if decoding:
                seconds += limits.kv * kv + limits.window_kv * window
            if limits.step_tokens > 1:
                seconds += drafts[0, decoding] + drafts[1, tokens]
            if one.overlap is not None:
                read = limits.kv * kv + limits.window_kv * window if decoding else 0.0
                prompt_s = limits.pair * pairs + limits.prompt_token * tokens
                seconds -= one.overlap.saved(each_rank + beside, prompt_s, read)
            if tokens + beside > limits.captured:
                seconds = max(seconds, limits.prompt_floor)
            seconds += stall_s
            if self.memory is not None:
                seconds = self.memory.seconds(one, seconds, now)
            if one.lending is not None:
                seconds += one.lending.seconds(one, one.decoding if decoding else (), tokens)
            one.mode, one.steps = "iteration", 1 if decoding else 0
            one.step_s, one.slope_s = seconds, 0.0
            one.busy_until = now + seconds
            if self.answers is not None:
                self.answers.started(one, now)
            if self.swaps is not None:
                self.swaps.started(one, now, self.record)
            return
        if not one.decoding:
            one.stall_s = stall_s
            one.mode, one.busy_until, one.ratio = "idle", float("inf"), limits.ratio_start
            return
        steps = min(self._steps(one), self.queue.horizon(one)) if self.jumps and self.pace is None else 1
        if (limits.poll > 1 or limits.ratio_start or preempted) and self._may_enter(one):
            steps = min(steps, limits.poll - one.polled)
        count = len(one.decoding)
        one.step_s = linear[count * limits.step_tokens] + limits.per_sequence * count
        one.step_s += limits.kv * kv + limits.window_kv * window
        if limits.step_tokens > 1:
            one.step_s += drafts[0, count]
        one.slope_s = limits.kv * count * (limits.tokens_per_step * 1e-6)
        if one.overlap is not None:
            read = limits.kv * kv + limits.window_kv * window
            saved, more, most = one.overlap.run(count * limits.step_tokens, read, one.slope_s)
            steps = min(steps, most)
            one.step_s, one.slope_s = one.step_s - saved, one.slope_s - more
        if one.lending is not None:
            one.step_s += one.lending.seconds(one, one.decoding, 0)
            steps = min(steps, one.lending.horizon)
        if stall_s:
            steps, one.step_s, one.slope_s = 1, one.step_s + stall_s, 0.0
        one.mode, one.steps = "run", steps
        one.busy_until = now + (steps * one.step_s + one.slope_s * (0.5 * steps * (steps - 1)))
        if self.answers is not None:
            self.answers.started(one, now)
        if self.swaps is not None:
            self.swaps.started(one, now, self.record)

    def _steps(self, one: Instance) -> int:
        """Decode steps until a sequence ends or the cache is full."""
        left, pace = min([q.output - q.made for q in one.decoding]), one.limits.tokens_per_step
        steps = -(-(left * MILLION - one.fraction) // pace)
        if one.limits.reserve:
            return steps
        free, block, ahead = one.capacity - one.used, one.limits.block, one.limits.lookahead
        tokens = one.gained(steps)
        if free >= len(one.decoding) * -(-tokens // block):  # enough however the blocks' ends fall
            return steps
        for i in range(tokens):
            free -= sum((q.stored + ahead + i) % block == 0 for q in one.decoding)
            if free < 0:
                return ((i + 1) * MILLION - 1 - one.fraction) // pace
        return steps

    def _shorten(self, one: Instance, now: float) -> None:
        if not one.ready and not self._may_enter(one):
            return
        past, first, slope = now - one.start, one.step_s, one.slope_s
        steps = 1
        while steps * first + slope * (0.5 * steps * (steps - 1)) < past:
            steps += 1
        if one.limits.poll > 1 and (late := (one.polled + steps) % one.limits.poll):
            steps += one.limits.poll - late
        if steps < one.steps:
            one.steps = steps
            one.busy_until = one.start + (steps * first + slope * (0.5 * steps * (steps - 1)))

    def resize(self, one: Instance, pool: int) -> None:
        """An instance becomes one of another pool: limits and iteration times; what it holds stays."""
        self.fleet.pool[one.index] = pool
        one.limits, one.linear = self.fleet.limits[pool], self.fleet.tables[pool, 0]
        one.overlap = self.fleet.overlaps[pool] if self.fleet.overlaps else None

    def halt(self, one: Instance) -> None:
        """An instance stops at once and forgets all that it computed; its requests wait first in line."""
        for q in list(one.admitted):
            self._take_back(one, q)
        if one.cache is not None:
            one.cache.evict(0)
        one.chunks, one.steps, one.mode, one.busy_until = [], 0, "idle", float("inf")

    def _take_back(self, one: Instance, q: Request) -> None:
        """Drop a request's cache; it is computed again, first in line."""
        decoding = q in one.decoding
        if self.record is not None:
            self.record.preempted(one)
        copied = decoding and self.swaps is not None and self.swaps.out(one, q)  # they time its return themselves
        if self.swaps is not None:
            if not copied:
                self.swaps.ended(one, q)
        elif decoding and one.host + q.blocks <= one.limits.swap_blocks:
            q.swapped = q.blocks
            one.host += q.blocks
        one.leave(q, q.stored if decoding else q.input + q.made - q.left)
        one.admitted.remove(q)
        (one.decoding if decoding else one.prompts).remove(q)
        if decoding:
            q.finish = float("nan") if copied else one.now  # its last token so far
        q.cached, q.preemptions = 0, q.preemptions + 1
        self.queue.put_back(one, q)
        one.asked += q.input

    def _complete(self, one: Instance, now: float) -> list[Request]:
        """The iteration or run is over; returns the requests that ended with it, in order."""
        ended = []
        limits, steps = one.limits, one.steps
        if self.record is not None:
            self.record.ended(one, now)
        one.now = now
        self.queue.served(one, one.chunks if one.mode == "iteration" else (), one.gained(steps) if steps else 0)
        if steps and one.decoding:
            one.polled = (one.polled + steps) % max(limits.poll, 1)
            gained = one.gained(steps)
            if self.pace is None:
                one.fraction += steps * limits.tokens_per_step - gained * MILLION
            for q in one.decoding:
                gained = gained if self.pace is None else self.pace.tokens(q)
                q.made += gained
                q.stored += gained
                if not limits.reserve:
                    need = -(-(q.stored + limits.lookahead) // limits.block)
                    one.used += need - q.blocks
                    q.blocks = need
            if one.cache is not None:
                one.cache.evict(one.capacity - one.used)
            one.ratio = max(one.ratio - limits.ratio_decay * steps, limits.ratio_least)
        if self.record is not None:
            self.record.grown(one, now)
        if steps and one.decoding:
            over = [q for q in one.decoding if q.made >= q.output]
            ended = sorted(over, key=lambda q: (q.output - q.made, q.index))
        if one.mode == "iteration":
            for q, c in one.chunks:
                q.left -= c
                one.register(q, q.input + q.made - q.left)
                if q.left:
                    continue
                one.prompts.remove(q)
                q.stored = q.input + q.made
                if q.made == 0:
                    q.first = now
                elif self.record is not None and not np.isnan(q.finish):
                    self.record.since(now - q.finish)
                q.made += 1
                q.held = min(q.stored + 1 + (q.output - q.made) // 2, limits.window)
                if q.answer is None:
                    one.decoding.append(q)
                if q.made >= q.output:
                    ended.append(q)
        for q in ended:
            q.finish = now
            one.admitted.remove(q)
            if q.answer is None:
                one.leave(q, min(q.stored, q.input + q.output - 1))
                one.decoding.remove(q)
        one.mode = "idle"
        return ended


def serve(
    requests: Requests, linear: Floats, limits: Limits, instances: int, *, policy: Policy | None = None,
    router: Router | None = None, jumps: bool = True, chains: Chains | None = None, record: Recorder | None = None,
    queue: Queue | None = None, admission: Admission | None = None, overlap: Overlap | None = None,
    pace: Pace | None = None, control: Control | None = None,
) -> None:  # fmt: skip
    """Run all requests through one pool and write scheduled, first-token and finish times into `requests`."""
    serve_fleet(
        requests, alike(limits, linear, instances, overlap), policies=None if policy is None else [policy],
        router=router, jumps=jumps, chains=chains, record=record, queue=queue, admission=admission, pace=pace,
        control=control,
    )  # fmt: skip


def serve_fleet(
    requests: Requests, fleet: Fleet, *, policies: Sequence[Policy] | None = None, router: Router | None = None,
    jumps: bool = True, chains: Chains | None = None, record: Recorder | None = None, queue: Queue | None = None,
    admission: Admission | None = None, pace: Pace | None = None, control: Control | None = None,
    memory: Memory | None = None,
) -> None:  # fmt: skip
    """The same through several pools."""
    twin = Twin(
        requests, fleet, policies=policies, router=router, jumps=jumps, chains=chains, record=record, queue=queue,
        admission=admission, pace=pace, control=control, memory=memory,
    )  # fmt: skip
    for q in twin.run():
        i = q.index
        last = q.answer or q
        requests.arrival_s[i], requests.scheduled_s[i] = q.arrival, q.scheduled
        requests.first_token_s[i], requests.finish_s[i] = q.first, last.finish
        requests.preemptions[i], requests.instance[i] = q.preemptions, q.instance
        requests.state[i] = REJECTED if q.rejected else SHED if q.shed else DONE
        if fleet.caching:
            requests.cached_tokens[i] = q.hit
        if q.answer is not None and last.instance >= 0:
            assert fleet.handover is not None
            requests.preemptions[i] += last.preemptions
            requests.prompt_end_s[i], requests.answer_scheduled_s[i] = q.first, last.scheduled
            requests.moved_s[i], requests.answered_by[i] = last.arrival, last.instance
            if fleet.handover.first is not FirstToken.PREFILL:
                requests.first_token_s[i] = last.first
