"""The reference loop of `kernels/`, and the loop that runs policies and routers written in Python.

Same events, same arithmetic, same results; slower. A policy of one's own overrides hooks of `Policy` and `Router`
(`serving/twin/`); the built-in ones are the switches that the jitted loop has.
"""

from __future__ import annotations

import copy
import heapq

from windtunnel.arrays import Floats
from windtunnel.progress import counting
from windtunnel.serving.event_loop.checks import check
from windtunnel.serving.event_loop.fleet import Fleet, single_pool
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.instance_limits import Router as RouterId
from windtunnel.serving.event_loop.kv_transfer_events import Answers
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.prefix_cache import PrefixCache
from windtunnel.serving.event_loop.prefix_chains import Chains, chains_of
from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.request_graph import parents_of
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.event_loop.swapping import NUMBERS
from windtunnel.serving.event_loop.twin.admission import Admission
from windtunnel.serving.event_loop.twin.arrivals import Arrivals
from windtunnel.serving.event_loop.twin.batch_policy import Policy
from windtunnel.serving.event_loop.twin.completion import complete, drop, make_room, take_back
from windtunnel.serving.event_loop.twin.instance import EXPECTED_MOST, MILLION, Instance
from windtunnel.serving.event_loop.twin.iteration_time import price_run, prompts_s, shorten, steps_to_change
from windtunnel.serving.event_loop.twin.pins import Pins
from windtunnel.serving.event_loop.twin.pipeline import Pipeline
from windtunnel.serving.event_loop.twin.queue import Queue
from windtunnel.serving.event_loop.twin.request import Batch, Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.event_loop.twin.write_back import write_back
from windtunnel.serving.iteration.overlap_savings import Overlap

__all__ = [
    "EXPECTED_MOST",
    "MILLION",
    "Admission",
    "Batch",
    "Instance",
    "Policy",
    "ReferenceLoop",
    "Request",
    "Router",
    "RouterId",
    "serve",
    "serve_fleet",
    "single_pool",
]


class ReferenceLoop:
    """The loop. `jumps=False` takes decode steps one by one, which must change nothing but rounding."""

    def __init__(
        self,
        requests: Requests,
        fleet: Fleet,
        rules: LoopRules | None = None,
        *,
        jumps: bool = True,
        chains: Chains | None = None,
        record: Recorder | None = None,
    ) -> None:
        rules = rules or LoopRules()
        self.pace, self.control, self.memory = rules.pace, rules.control, rules.memory
        self.all = [
            Request(
                index=i,
                input=int(requests.input_tokens[i]),
                output=int(requests.output_tokens[i]),
                cached=int(requests.cached_tokens[i]),
                priority=int(requests.priority[i]),
                group=int(requests.group[i]),
                arrival=float(requests.arrival_s[i]),
                delay=float(requests.delay_s[i]),
                follow=int(requests.follow[i]),
                tenant=int(requests.tenant[i]),
                pool=int(requests.pool[i]),
                reused=int(requests.reused_tokens[i]),
                keep=float(requests.keep_s[i]),
            )
            for i in range(len(requests))
        ]
        self.fleet, limits = fleet, fleet.limits[0]
        self.limits = limits
        """Limits of the first pool; what they say of the loop holds for all pools."""
        self.queue, self.admission = rules.queue or Queue(), rules.admission
        self.swaps = self.queue.swaps
        own = [fleet.limits[p] for p in fleet.pool]
        self.instances = [
            Instance(
                index=k,
                limits=own[k],
                ratio=own[k].ratio_start,
                queue=self.queue,
                prefill_only=bool(fleet.prefill_only[k]),
            )
            for k in range(fleet.lanes)
        ]
        for one, p in zip(self.instances, fleet.pool, strict=True):
            one.ahead = one.limits.step_tokens if rules.pace else 0
            one.linear = fleet.tables[p, 0]
            one.overlap = fleet.overlaps[p] if fleet.overlaps else None
        self._join_pipelines()
        self.entries = self.instances[: fleet.entries]
        for one in self.instances[fleet.entries :]:
            one.answers_only = True
        if fleet.caching:
            chains = chains or chains_of(requests, fleet.block)
            for q in self.all:
                q.chain = tuple(chains.nodes[chains.start[q.index] : chains.start[q.index + 1]].tolist())
            for one in self.instances:
                if one.limits.caching:
                    own_cache = self.memory.cache(one, chains.size.tolist()) if self.memory else None
                    one.cache = own_cache or PrefixCache(chains.size.tolist())
        self.policies, self.jumps = rules.policies or [Policy() for _ in fleet.limits], jumps
        self.executions = [rules.execution and rules.execution(one) for one in self.instances]
        self.router = rules.router or Router(RouterId(limits.router), limits.seed)
        self.groups = [(int(a), int(b)) for a, b in fleet.lane_groups]
        self.routers = [self.router, *(copy.deepcopy(self.router) for _ in self.groups[1:])]
        """By group of instances."""
        self.record = record
        self.touched: set[int] = set()
        """Instances that lost requests which were taken back, and have not heard of it yet."""
        self.arrivals = Arrivals(requests, self.all, limits.concurrency, self)
        self.later = self.arrivals.later
        after = requests.after
        self.first_pin = self.arrivals.first_joint + (after.joints if after is not None else 0)
        """Number of the first event of a call that keeps its blocks."""
        if requests.keep_s.any() and fleet.caching:
            pins = Pins(*parents_of(after, requests.follow), self.all, self.instances)
            for one in self.instances:
                one.pins = pins
        self.answers = Answers(self) if fleet.kv_transfer else None

    def _join_pipelines(self) -> None:
        """Give the lanes of each pipeline its stages."""
        lines = self.fleet.pipelines
        if lines is None:
            return
        for line in range(int(lines.max()) + 1):
            lanes = [one for one, own in zip(self.instances, lines, strict=True) if own == line]
            stages = self.fleet.stages[int(self.fleet.pool[lanes[0].index])]
            assert stages is not None
            pipeline = Pipeline(lanes, stages)
            for one in lanes:
                one.pipeline = pipeline

    def policy(self, one: Instance) -> Policy:
        """The batch policy of an instance's pool."""
        return self.policies[int(self.fleet.pool[one.index])]

    def run(self) -> list[Request]:
        """All requests, served."""
        self.queue.begin(self.instances)
        for router, (first, last) in zip(self.routers, self.groups, strict=True):
            router.begin(self.instances if len(self.groups) == 1 else self.instances[first:last])
        if self.admission is not None:
            self.admission.begin(self.instances)
        if self.control is not None:
            self.control.begin(self)
        if self.memory is not None:
            self.memory.begin(self.instances)
        self.arrivals.begin()
        while True:
            one = min(self.instances, key=lambda x: (x.busy_until, x.index))
            arrival = self.arrivals.next_s()
            if arrival == one.busy_until == float("inf"):
                return self.all
            if arrival < one.busy_until:
                fresh: set[int] = set()
                while self.arrivals.next_s() <= arrival:
                    fresh.update(self._event(self.arrivals.pop(), arrival))
                for k in sorted(fresh | self._told()):
                    self._wake(self.instances[k], arrival)
                continue
            now = one.busy_until
            own = self.executions[one.index]
            for q in own.complete(one, now, self.record) if own else complete(one, now, self.record, self.pace):
                one.tokens_to_do -= q.input + q.output
                self.queue.ended(one, q)
                if self.swaps is not None:
                    self.swaps.ended(one, q)
                if one.index < self.fleet.entries:
                    self.routers[q.pool].ended(one, q)
                if self.admission is not None:
                    origin = q.prompt or q
                    self.admission.ended(self.instances[origin.instance], origin)
                if q.pinned and q.keep < float("inf"):
                    heapq.heappush(self.later, (now + q.keep, self.first_pin + q.index))
                if self.answers is not None and q.answer is not None:
                    self.answers.prompt_ended(q, now)
                else:
                    self.arrivals.follow_up(q, now)
            fresh = set()
            while self.later and self.later[0][0] <= now:
                fresh.update(self._event(heapq.heappop(self.later)[1], now))
            for k in sorted((fresh | self._told()) - {one.index}):
                self._wake(self.instances[k], now)
            if self.control is not None:
                self.control.completed(one, now)
            self._form(one, now)
            if one.lending is not None:
                for other in one.lending.starved():
                    self._wake(other, now)

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
        if i >= self.first_pin:
            q = self.all[i - self.first_pin]
            one = self.instances[q.instance]
            if not q.pinned or one.pins is None:
                return []
            one.pins.unpin(q)
            return [q.instance]
        if i >= self.arrivals.first_joint:
            assert self.arrivals.waits is not None
            self.arrivals.waits.joint_event(i, now)
            self.arrivals.tasks_ended(-1, 0.0, now)
            return []
        if i >= len(self.all):
            assert self.answers is not None
            return self.answers.event(i, now)
        q = self.all[i]
        if q.over:  # taken back before it was sent
            return []
        q.arrival, q.sent = now, True
        return self.arrive(q, now)

    def cancel(self, q: Request, now: float) -> bool:
        """Take a request back that is on an instance; returns whether it is over at once.

        A queued one is, a running one ends with the iteration or decode step under way, or now between two of them.
        """
        one = self.instances[q.instance]
        if q not in one.admitted:
            self.queue.take(one, q)
            one.host -= q.swapped
            one.asked -= q.input
            one.tokens_to_do -= q.input + q.output
            q.finish, q.over, q.cancelled = now, True, True
            self.touched.add(one.index)
            return True
        if one.mode == "idle":
            drop(one, q, now)
            if one.pins is not None:
                one.pins.keep_or_drop(one, q)
            one.tokens_to_do -= q.input + q.output
            return True
        one.cancelled.append(q)
        if one.mode == "run":
            shorten(one, now)
        return False

    def _told(self) -> set[int]:
        """Instances that hear now of requests taken back."""
        out, self.touched = self.touched, set()
        return out

    def arrive(self, q: Request, now: float) -> list[int]:
        """A request comes, or (kept by the control) can be sent at last; returns the instances that hear of it."""
        if self.control is not None and not self.control.takes(q, now):
            return []
        first, last = self.groups[q.pool]
        place = first + self.routers[q.pool].route(self.entries[first:last], q)
        k = self.entries[place].index if place < len(self.entries) else place  # beyond them: one that only answers
        q.instance = k
        one = self.instances[k]
        if self.answers is not None:
            self.answers.split(one, q)
        if self.too_long(one, q):
            q.rejected = q.over = True
            self.arrivals.follow_up(q, now)
            return []
        one.now = now
        if self.admission is not None and not self.admission.accepts(one, q, now):
            q.shed = q.over = True
            self.arrivals.follow_up(q, now)
            return []
        if self.answers is not None and not self.answers.foreseen(q):
            q.rejected = q.over = True
            self.arrivals.follow_up(q, now)
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

    # -- one instance --------------------------------------------------------------------------------------------------
    def _wake(self, one: Instance, now: float) -> None:
        if (own := self.executions[one.index]) is not None:
            own.wake(one, now, self.policy(one), self.record)
        elif one.mode == "idle":
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
        """Start the next iteration, or run of decode steps, of an instance that is free."""
        if (own := self.executions[one.index]) is not None:
            own.form(one, now, self.policy(one), self.record)
            return
        one.now = now
        alone = one.pipeline is None or one.pipeline.is_alone(one, now)
        if one.lending is not None:
            one.lending.settle(one)
        if self.answers is not None:
            self.answers.join(one, now)
        if self.swaps is not None:
            self.swaps.join(one)
        while (q := self.queue.yields(one)) is not None:
            take_back(one, q, self.record)
        preempted = make_room(one, self.policy(one), self.record)
        batch = self._batch(one, now, preempted=preempted)
        stall_s, one.stall_s = one.stall_s, 0.0
        one.start, one.chunks = now, batch.chunks
        if batch.chunks:
            self._start_iteration(one, batch, stall_s, now)
        elif one.decoding:
            self._start_run(one, stall_s, now, alone=alone, preempted=preempted)
        else:
            one.stall_s = stall_s
            one.mode, one.busy_until, one.ratio = "idle", float("inf"), one.limits.ratio_start
            return
        if self.answers is not None:
            self.answers.started(one, now)
        if self.swaps is not None:
            self.swaps.started(one, now, self.record)

    def _batch(self, one: Instance, now: float, *, preempted: bool) -> Batch:
        """Prompts that go on, and requests that enter, by the pool's policy."""
        looks = one.limits.poll <= 1 or not one.decoding or one.polled == 0
        before, moving = len(one.admitted), len(one.moving)
        batch = self.policy(one).form_batch(one, now, may_admit=looks and not (preempted and one.running))
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
        return batch

    def _start_iteration(self, one: Instance, batch: Batch, stall_s: float, now: float) -> None:
        """Start an iteration that holds prompts."""
        table, window = self.fleet.tables[self.fleet.pool[one.index]], sum(q.held for q in one.decoding)
        seconds = prompts_s(one, batch, table, one.kv(), window)
        seconds += stall_s
        if self.memory is not None:
            seconds = self.memory.seconds(one, seconds, now)
        tokens = sum(c for _, c in batch.chunks)
        if one.lending is not None:
            seconds += one.lending.seconds(one, one.decoding if batch.decodes else (), tokens)
        decoding = len(one.decoding) if batch.decodes else 0
        computed = -(-tokens // one.limits.cp) + decoding * one.limits.step_tokens
        seconds += self._wait_for_stages(one, seconds, computed, decoding + len(batch.chunks))
        one.mode, one.steps = "iteration", 1 if decoding else 0
        one.step_s, one.slope_s = seconds, 0.0
        one.busy_until = now + seconds

    def _start_run(self, one: Instance, stall_s: float, now: float, *, alone: bool, preempted: bool) -> None:
        """Start a run of decode steps, as many as are alike."""
        limits, window = one.limits, sum(q.held for q in one.decoding)
        kv = one.kv()
        steps = min(steps_to_change(one), self.queue.horizon(one)) if self.jumps and self.pace is None else 1
        if (limits.poll > 1 or limits.ratio_start or preempted) and self._may_enter(one):
            steps = min(steps, limits.poll - one.polled)
        steps = min(steps, price_run(one, self.fleet.tables[self.fleet.pool[one.index]], kv, window))
        if one.lending is not None:
            one.step_s += one.lending.seconds(one, one.decoding, 0)
            steps = min(steps, one.lending.horizon)
        if stall_s:
            steps, one.step_s, one.slope_s = 1, one.step_s + stall_s, 0.0
        steps = steps if alone else 1
        one.in_stages = steps == 1
        one.step_s += self._wait_for_stages(one, one.step_s, len(one.decoding) * limits.step_tokens, len(one.decoding))
        one.mode, one.steps = "run", steps
        one.busy_until = now + (steps * one.step_s + one.slope_s * (0.5 * steps * (steps - 1)))

    def _wait_for_stages(self, one: Instance, seconds: float, tokens: int, sequences: int) -> float:
        """Send a micro-batch through its pipeline; returns the seconds that it waits for others there."""
        if one.pipeline is None:
            return 0.0
        waited = one.pipeline.enter(seconds, tokens, sequences, one.now)
        if self.record is not None:
            self.record.waited(one, waited)
        return waited

    def _shorten(self, one: Instance, now: float) -> None:
        if one.ready or self._may_enter(one):
            shorten(one, now)

    def resize(self, one: Instance, pool: int) -> None:
        """An instance becomes one of another pool: limits and iteration times; what it holds stays."""
        self.fleet.pool[one.index] = pool
        one.limits, one.linear = self.fleet.limits[pool], self.fleet.tables[pool, 0]
        one.overlap = self.fleet.overlaps[pool] if self.fleet.overlaps else None

    def halt(self, one: Instance) -> None:
        """An instance stops at once and forgets all that it computed; its requests are first in the queue."""
        for q in reversed(one.cancelled):
            drop(one, q, one.now)
            one.tokens_to_do -= q.input + q.output
            self.arrivals.follow_up(q, one.now)
        one.cancelled.clear()
        while one.pins is not None and one.pins.unpin_oldest(one):
            pass
        for q in list(one.admitted):
            take_back(one, q, self.record)
        if one.cache is not None:
            one.cache.evict(0)
        one.chunks, one.steps, one.mode, one.busy_until = [], 0, "idle", float("inf")


def serve(
    requests: Requests,
    linear: Floats,
    limits: Limits,
    instances: int,
    rules: LoopRules | None = None,
    *,
    jumps: bool = True,
    record: Recorder | None = None,
    overlap: Overlap | None = None,
) -> None:
    """Run all requests through one pool and write scheduled, first-token and finish times into `requests`."""
    serve_fleet(requests, single_pool(limits, linear, instances, overlap), rules, jumps=jumps, record=record)


def _ended(q: Request) -> bool:
    return q.finish == q.finish or q.over


def serve_fleet(
    requests: Requests,
    fleet: Fleet,
    rules: LoopRules | None = None,
    *,
    jumps: bool = True,
    chains: Chains | None = None,
    record: Recorder | None = None,
) -> None:
    """Run all requests through the pools of a fleet and write their times into `requests`."""
    check(requests, fleet, rules)
    twin = ReferenceLoop(requests, fleet, rules, jumps=jumps, chains=chains, record=record)
    with counting("requests", lambda: (sum(map(_ended, twin.all)), len(twin.all))):
        served = twin.run()
    write_back(served, requests, fleet)
