"""How an instance forms its next iteration: who is preempted, which prompts go on, who is admitted, what it costs."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper, pasted
from windtunnel.serving.event_loop.kernels.disaggregation import hold_for_answer, join, note_first_steps
from windtunnel.serving.event_loop.kernels.kv_blocks import (
    blocks_for,
    decoding_kv_tokens,
    extra_blocks,
    gained_tokens,
    next_growth,
    steps_for,
    steps_with_room,
    steps_within,
    wanted_tokens,
)
from windtunnel.serving.event_loop.kernels.pins import unpin, unpin_parents
from windtunnel.serving.event_loop.kernels.pipeline import pass_stages
from windtunnel.serving.event_loop.kernels.preemption import preempt
from windtunnel.serving.event_loop.kernels.prefix_tree import evict, find, hold, register
from windtunnel.serving.event_loop.kernels.queues import add_prompt, enter_batch, first_class, leave_queue
from windtunnel.serving.event_loop.kernels.records import EXPECTED_MOST, IDLE, ITERATION, MILLION, PREFILL, RUN
from windtunnel.serving.event_loop.kernels.state import Array, Batch, Lane, Loop, PrefixTree, Record


@helper
def _expected_tokens(instance: Record, heap: Array, requests: Array) -> int:
    """Tokens that the batch is expected to make from now on, in millionths."""
    out = 0
    for p in range(instance.decoding):
        out += min(requests[heap[p]].finish_step - instance.step, EXPECTED_MOST) * instance.ratio
    i = instance.prompt_head
    while i >= 0:
        out += min(requests[i].output - requests[i].made, EXPECTED_MOST) * MILLION
        i = requests[i].next_prompt
    return out


@pasted
def _fits(lane: Lane, requests: Array, tree: PrefixTree, i: int) -> bool:
    """Whether the cache has room for a request beside those that are there, and the step they take with it."""
    instance, limits = lane.instance, lane.limits
    q = requests[i]
    need = blocks_for(wanted_tokens(q, limits), limits.block) + extra_blocks(q, limits)
    if limits.mixed and not limits.reserve:
        need += next_growth(instance, lane.turns, limits)
    found = 0
    if limits.caching and q.swapped == 0:
        found, free, _ = find(instance, tree, i)
        need += free - found
    if instance.decoding + instance.prefilling == 0:
        return instance.used + need <= limits.blocks
    if instance.used + need + limits.watermark > limits.blocks:
        return False
    if limits.ratio_start > 0:
        left = q.input + q.made - max(q.cached, found * limits.block)
        if q.reused > 0 and q.preemptions == 0:
            left = max(left - q.reused, 1)
        expected = _expected_tokens(instance, lane.heap, requests)
        room = (limits.blocks - instance.used) * limits.block * MILLION - expected
        return room > (left + min(q.output - q.made, EXPECTED_MOST)) * MILLION
    return True


@pasted
def _admissible(lane: Lane, requests: Array, tree: PrefixTree) -> bool:
    """Whether the first queued request could enter the batch now (or soon, where that depends on what is expected)."""
    instance, limits = lane.instance, lane.limits
    if instance.waiting == 0 or instance.decoding + instance.prefilling >= limits.max_seqs:
        return False
    if limits.static and instance.decoding + instance.prefilling > 0:
        return False
    if limits.ratio_start > 0:
        return True
    return _fits(lane, requests, tree, np.int64(lane.queues[first_class(lane.queues), 0]))


@pasted
def form(lane: Lane, loop: Loop, now: float) -> None:
    """Start the next iteration, or run of decode steps, of an instance that is free."""
    instance, limits = lane.instance, lane.limits
    joined = instance.ready
    if joined >= 0:
        join(lane, loop.requests, loop.transfer.rule, now)
    preempted = not limits.reserve and _make_room(lane, loop, now)
    if preempted and limits.ratio_start > 0:
        _expect_more(lane, loop.requests)
    batch = _go_on_with_prompts(lane, loop.requests, loop.tree)
    if _looks_for_requests(instance, limits, preempted):
        batch = _admit(lane, loop, batch, now)
    instance.start = now
    lane.total.running_max = max(lane.total.running_max, instance.decoding + instance.prefilling)
    lane.total.kv_max = max(lane.total.kv_max, instance.used)
    if batch.tokens > 0:
        _start_iteration(lane, loop, batch, joined, now)
    elif instance.decoding > 0:
        _start_run(lane, loop, preempted, joined, now)
    else:
        instance.mode = IDLE
        instance.end = np.inf
        instance.ratio = limits.ratio_start


@pasted
def _make_room(lane: Lane, loop: Loop, now: float) -> bool:
    """Preempt requests until the next decode step has blocks; returns whether there was need to."""
    instance, limits = lane.instance, lane.limits
    preempted = False
    while instance.decoding > 0:
        need = next_growth(instance, lane.turns, limits)
        if preempted and instance.decoding > 1:
            need = max(need, blocks_for(instance.decoding * limits.retract, limits.block))
        if instance.used + need <= limits.blocks:
            break
        if instance.first_pin >= 0 and instance.decoding + instance.prefilling == 1:
            unpin(loop.fleet.instances, loop.requests, loop.tree, np.int64(instance.first_pin))
            continue
        preempt(lane, loop.requests, loop.tree, now)
        preempted = True
    return preempted


@helper
def _expect_more(lane: Lane, requests: Array) -> None:
    """Set the share of the answers to come that is expected, after a preemption (SGLang)."""
    instance = lane.instance
    made, whole = lane.limits.retract * instance.decoding, 1
    for p in range(instance.decoding):
        q = requests[lane.heap[p]]
        made += q.output - (q.finish_step - instance.step)
        whole += q.output
    instance.ratio = min(MILLION, made * MILLION // whole)


@pasted
def _pairs(tokens: int, done: int, limits: Record) -> float:
    """Query-key pairs of a prompt's next tokens; of sparse attention, those that it is charged for."""
    every = float(tokens) * done + 0.5 * float(tokens) * tokens
    if limits.reach == 0.0:
        return every
    return min(every, tokens * limits.reach) + limits.index_share * every


@pasted
def _go_on_with_prompts(lane: Lane, requests: Array, tree: PrefixTree) -> Batch:
    """Give prompts that have begun their next tokens."""
    instance, limits = lane.instance, lane.limits
    budget = limits.budget
    if limits.mixed:
        budget -= instance.decoding * limits.step_tokens
    each = budget // limits.ranks
    tokens, sequences = 0, 0
    pairs = 0.0
    i = np.int64(instance.prompt_head)
    while i >= 0 and budget > 0:
        q = requests[i]
        c = max(min(q.left, budget, each), 1)
        if not limits.chunked:
            if q.left > budget and tokens > 0:
                break
            c = q.left
        done = q.input + q.made - q.left
        q.chunk = c
        if limits.caching and limits.early:
            register(instance, requests, tree, i, (done + c) // limits.block)
        pairs += _pairs(c, done, limits)
        tokens += c
        sequences += 1
        budget -= c
        i = q.next_prompt
    return Batch(budget, each, tokens, sequences, 0, pairs)


@pasted
def _looks_for_requests(instance: Record, limits: Record, preempted: bool) -> bool:
    """Whether the queue is looked at before this iteration."""
    empty = instance.decoding + instance.prefilling == 0
    polls = limits.poll <= 1 or instance.decoding == 0 or instance.polled == 0
    return polls and (empty or not (limits.static or preempted))


@pasted
def _cached_before(lane: Lane, requests: Array, tree: PrefixTree, i: int) -> tuple[int, int, int]:
    """Tokens of a request that need not be computed; blocks of them that the cache has, and the nodes they span."""
    q, limits = requests[i], lane.limits
    whole = q.input + q.made
    if q.swapped > 0:
        return whole - 1, 0, 0
    if limits.caching:
        found, _, count = find(lane.instance, tree, i)
        return min(found * limits.block, whole - 1), found, count
    return q.cached, 0, 0


@pasted
def _admit(lane: Lane, loop: Loop, batch: Batch, now: float) -> Batch:
    """Let queued requests enter, in their order, as long as the batch and the cache have room."""
    instance, limits, requests, tree = lane.instance, lane.limits, loop.requests, loop.tree
    budget, tokens, sequences, moved, pairs = batch.budget, batch.tokens, batch.sequences, batch.moved, batch.pairs
    while instance.waiting > 0 and budget > 0 and instance.decoding + instance.prefilling < limits.max_seqs:
        row = first_class(lane.queues)
        i = np.int64(lane.queues[row, 0])
        q = requests[i]
        fits = _fits(lane, requests, tree, i)
        if q.swapped < 0:
            if not fits:
                break
            hold_for_answer(lane, requests, tree.nodes, row, now)
            continue
        known, found, count = _cached_before(lane, requests, tree, i)
        cached = known
        if q.reused > 0 and q.preemptions == 0:
            cached = min(known + q.reused, q.input + q.made - 1)
        left = q.input + q.made - cached
        if not limits.chunked and left > budget and tokens > 0:
            break
        if not fits:
            if instance.first_pin >= 0 and instance.decoding + instance.prefilling == 0:
                unpin(loop.fleet.instances, requests, tree, np.int64(instance.first_pin))
                continue
            break
        moved += 2 * q.swapped
        leave_queue(instance, lane.queues, requests, row)
        _take_blocks(lane, requests, tree, i, found, count)
        q.cached, q.left = cached, left
        c = max(min(left, budget, batch.each), 1) if limits.chunked else left
        q.chunk = c
        if q.scheduled != q.scheduled:
            q.scheduled, q.hit = now, known
            lane.total.asked_tokens += q.input
            lane.total.hit_tokens += known
            if len(loop.pins.start) > 0:
                unpin_parents(loop.pins, loop.fleet.instances, requests, tree, i)
        q.state = PREFILL
        add_prompt(instance, requests, i)
        enter_batch(instance, requests, i)
        if limits.caching and limits.early:
            register(instance, requests, tree, i, (q.input + q.made - left + c) // limits.block)
        pairs += _pairs(c, q.input + q.made - left, limits)
        tokens += c
        sequences += 1
        budget -= c
    return Batch(budget, batch.each, tokens, sequences, moved, pairs)


@pasted
def _take_blocks(lane: Lane, requests: Array, tree: PrefixTree, i: int, found: int, count: int) -> None:
    """Give an entering request its blocks, of which the cache has `found` in the first `count` nodes of its chain."""
    q, instance, limits = requests[i], lane.instance, lane.limits
    q.blocks = blocks_for(wanted_tokens(q, limits), limits.block)
    if limits.caching:
        for j in range(tree.chain_at[i], tree.chain_at[i] + count):
            hold(instance, tree.nodes, tree.chain[j])
        q.nodes = count
        q.shared = found
    instance.used += q.blocks - found + extra_blocks(q, limits)
    if limits.caching:
        evict(instance, tree.nodes, limits.blocks)
    instance.host -= q.swapped
    q.swapped = 0


@pasted
def _iteration_s(lane: Lane, batch: Batch, decoding: int) -> float:
    """Seconds of an iteration with prompts, and `decoding` sequences that make a step in it."""
    limits, linear = lane.limits, lane.linear
    tokens, sequences = batch.tokens, batch.sequences
    beside = decoding * limits.step_tokens
    each_rank = (tokens + limits.cp - 1) // limits.cp
    seconds = linear[0, each_rank + beside] + limits.prompt_token_s * tokens
    seconds += limits.pair_s * batch.pairs
    if limits.ranks > 1:
        turns_each = (sequences + limits.ranks - 1) // limits.ranks
        even = min(tokens * turns_each * limits.ranks // sequences, len(linear[0]) - 1 - beside)
        seconds += linear[1, even + beside] - linear[1, tokens + beside]
        seconds += limits.pair_s * batch.pairs * (turns_each * limits.ranks / sequences - 1.0)
    seconds += limits.per_sequence_s * (decoding + sequences) + limits.swap_block_s * batch.moved
    if decoding > 0:
        seconds += limits.kv_s * decoding_kv_tokens(lane.instance) + limits.window_kv_s * lane.instance.window
    if limits.step_tokens > 1:
        seconds += linear[2, decoding] + linear[3, tokens]
    if tokens + beside > limits.captured:
        seconds = max(seconds, limits.prompt_floor_s)
    return seconds


@pasted
def _start_iteration(lane: Lane, loop: Loop, batch: Batch, joined: int, now: float) -> None:
    """Start an iteration that holds prompts; answers from `joined` on make their first step."""
    instance, limits, total = lane.instance, lane.limits, lane.total
    decoding = instance.decoding if limits.mixed else 0
    seconds = _iteration_s(lane, batch, decoding)
    if instance.line >= 0:
        computed = (batch.tokens + limits.cp - 1) // limits.cp + decoding * limits.step_tokens
        waited = pass_stages(instance, loop.pipelines, seconds, computed, decoding + batch.sequences, now)
        total.stage_wait_s += waited
        seconds += waited
        instance.in_stages = 1
    instance.mode = ITERATION
    instance.steps = 1 if decoding > 0 else 0
    instance.first_step = seconds
    instance.slope = 0.0
    instance.end = now + seconds
    if joined >= 0 and decoding > 0:
        note_first_steps(loop.requests, joined, loop.histogram, now, seconds)
    total.prompt_iterations += 1
    total.prompt_tokens += batch.tokens
    total.prompt_pairs += batch.pairs


@pasted
def _steps_to_change(lane: Lane, requests: Array) -> int:
    """Decode steps until an answer is complete or blocks run out."""
    instance, limits = lane.instance, lane.limits
    steps = steps_for(instance, limits, requests[lane.heap[0]].finish_step - instance.step)
    if not limits.reserve:
        wanted = gained_tokens(instance, limits, steps)
        free = limits.blocks - instance.used
        room = steps_with_room(lane.turns, instance.step, instance.decoding, limits.block, free, wanted)
        if room < wanted:
            steps = steps_within(instance, limits, room)
    return steps


@pasted
def _start_run(lane: Lane, loop: Loop, preempted: bool, joined: int, now: float) -> None:
    """Start a run of decode steps, as many as are alike; answers from `joined` on make their first one."""
    instance, limits = lane.instance, lane.limits
    steps = _steps_to_change(lane, loop.requests)
    looks = limits.poll > 1 or limits.ratio_start > 0 or preempted
    if looks and instance.waiting > 0 and _admissible(lane, loop.requests, loop.tree):
        steps = min(steps, limits.poll - instance.polled)
    first = lane.linear[0, instance.decoding * limits.step_tokens] + limits.per_sequence_s * instance.decoding
    first += limits.kv_s * decoding_kv_tokens(instance) + limits.window_kv_s * instance.window
    if limits.step_tokens > 1:
        first += lane.linear[2, instance.decoding]
    if instance.line >= 0:
        if instance.in_stages == 1:
            steps = 1
        computed = instance.decoding * limits.step_tokens
        waited = pass_stages(instance, loop.pipelines, first, computed, instance.decoding, now)
        lane.total.stage_wait_s += waited
        first += waited
        instance.in_stages = 0 if steps > 1 else 1
    instance.mode = RUN
    instance.steps = steps
    instance.first_step = first
    instance.slope = limits.kv_s * instance.decoding * (limits.tokens_per_step * 1e-6)
    instance.end = now + (steps * first + instance.slope * (0.5 * steps * (steps - 1)))
    if joined >= 0:
        note_first_steps(loop.requests, joined, loop.histogram, now, first)


@pasted
def shorten(lane: Lane, requests: Array, tree: PrefixTree, now: float) -> None:
    """End a run of decode steps with the step under way, if a request that has just arrived can enter the batch."""
    if lane.instance.ready >= 0 or _admissible(lane, requests, tree):
        cut_run(lane.instance, lane.limits, now)


@helper
def cut_run(instance: Record, limits: Record, now: float) -> None:
    """End a run of decode steps with the step under way, or with the next that looks for requests."""
    first, slope, past = instance.first_step, instance.slope, now - instance.start
    half = first - 0.5 * slope
    steps = int(2.0 * past / (half + np.sqrt(half * half + 2.0 * slope * past)))
    while steps * first + slope * (0.5 * steps * (steps - 1)) < past:
        steps += 1
    while steps > 1 and (steps - 1) * first + slope * (0.5 * (steps - 1) * (steps - 2)) >= past:
        steps -= 1
    if limits.poll > 1:
        late = (instance.polled + steps) % limits.poll
        if late > 0:
            steps += limits.poll - late
    steps = max(steps, 1)
    if steps < instance.steps:
        instance.steps = steps
        instance.end = instance.start + (steps * first + slope * (0.5 * steps * (steps - 1)))
