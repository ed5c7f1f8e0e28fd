"""How an instance forms its next iteration: who is preempted, which prompts go on, who is admitted, what it costs."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper
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
from windtunnel.serving.event_loop.kernels.queues import enter_batch, first_class
from windtunnel.serving.event_loop.kernels.records import EXPECTED_MOST, IDLE, ITERATION, MILLION, PREFILL, RUN, Array


@helper
def _expected_tokens(instance: Array, heap: Array, requests: Array) -> int:
    """Tokens that the batch is expected to make from now on, in millionths."""
    out = 0
    for p in range(instance.decoding):
        out += min(requests[heap[p]].finish_step - instance.step, EXPECTED_MOST) * instance.ratio
    i = instance.prompt_head
    while i >= 0:
        out += min(requests[i].output - requests[i].made, EXPECTED_MOST) * MILLION
        i = requests[i].next_prompt
    return out


@helper
def _charged_pairs(every: float, c: int, limits: Array) -> float:
    """Query-key pairs that sparse attention is charged for, of `every` pair of a prompt's next `c` tokens."""
    return min(every, c * limits.reach) + limits.index_share * every


@helper
def _fits(
    instance: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    i: int,
) -> bool:
    """Whether the cache has room for a request beside those that are there, and the step they take with it."""
    q = requests[i]
    need = blocks_for(wanted_tokens(q, limits), limits.block) + extra_blocks(q, limits)
    if limits.mixed and not limits.reserve:
        need += next_growth(instance, turns, limits)
    found = 0
    if nodes is not None and limits.caching and q.swapped == 0:
        found, free, _ = find(instance, nodes, chain_at, chain, size, i)
        need += free - found
    if instance.decoding + instance.prefilling == 0:
        return instance.used + need <= limits.blocks
    if instance.used + need + limits.watermark > limits.blocks:
        return False
    if limits.ratio_start > 0:
        left = q.input + q.made - max(q.cached, found * limits.block)
        if q.reused > 0 and q.preemptions == 0:
            left = max(left - q.reused, 1)
        room = (limits.blocks - instance.used) * limits.block * MILLION - _expected_tokens(instance, heap, requests)
        return room > (left + min(q.output - q.made, EXPECTED_MOST)) * MILLION
    return True


@helper
def _admissible(
    instance: Array,
    queues: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
) -> bool:
    """Whether the first queued request could enter the batch now (or soon, where that depends on what is expected)."""
    if instance.waiting == 0 or instance.decoding + instance.prefilling >= limits.max_seqs:
        return False
    if limits.static and instance.decoding + instance.prefilling > 0:
        return False
    if limits.ratio_start > 0:
        return True
    i = queues[first_class(queues), 0]
    return _fits(instance, heap, requests, turns, limits, nodes, chain_at, chain, size, i)


@helper
def form(
    instance: Array,
    queues: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    total: Array,
    limits: Array,
    linear: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    pipes: Array,
    pins: Array,
    histogram: Array,
    now: float,
) -> None:
    """Start the next iteration, or run of decode steps, of an instance that is free."""
    preempted = False
    if flow is not None:
        joined = instance.ready
        join(instance, heap, requests, turns, limits, flow, now)
    if not limits.reserve:
        while instance.decoding > 0:
            need = next_growth(instance, turns, limits)
            if preempted and instance.decoding > 1:
                need = max(need, blocks_for(instance.decoding * limits.retract, limits.block))
            if instance.used + need <= limits.blocks:
                break
            if pins is not None and nodes is not None and instance.decoding + instance.prefilling == 1:
                if instance.first_pin >= 0:
                    unpin(pins, requests, nodes, chain_at, chain, instance.first_pin)
                    continue
            preempt(instance, queues, heap, requests, turns, total, limits, nodes, chain_at, chain, size, now)
            preempted = True
    if preempted and limits.ratio_start > 0:
        made, whole = limits.retract * instance.decoding, 1
        for p in range(instance.decoding):
            q = requests[heap[p]]
            made += q.output - (q.finish_step - instance.step)
            whole += q.output
        instance.ratio = min(MILLION, made * MILLION // whole)
    budget = limits.budget
    if limits.mixed:
        budget -= instance.decoding * limits.step_tokens
    each = budget // limits.ranks  # one rank computes a prompt, within its own budget
    tokens, sequences, moved = 0, 0, 0
    pairs = 0.0
    i = instance.prompt_head
    while i >= 0 and budget > 0:
        q = requests[i]
        c = max(min(q.left, budget, each), 1)
        if not limits.chunked:
            if q.left > budget and tokens > 0:
                break
            c = q.left
        done = q.input + q.made - q.left
        q.chunk = c
        if nodes is not None and limits.caching and limits.early:
            register(instance, requests, nodes, chain_at, chain, size, i, (done + c) // limits.block)
        every = float(c) * done + 0.5 * float(c) * c
        pairs += every if limits.reach == 0.0 else _charged_pairs(every, c, limits)
        tokens += c
        sequences += 1
        budget -= c
        i = q.next_prompt
    batch = instance.decoding + instance.prefilling
    looks = limits.poll <= 1 or instance.decoding == 0 or instance.polled == 0
    fresh = looks and (not limits.static or batch == 0) and (not preempted or batch == 0)
    while fresh and instance.waiting > 0 and budget > 0:
        if instance.decoding + instance.prefilling >= limits.max_seqs:
            break
        row = first_class(queues)
        i = queues[row, 0]
        q = requests[i]
        if flow is not None and q.swapped < 0:
            if not _fits(instance, heap, requests, turns, limits, nodes, chain_at, chain, size, i):
                break
            hold_for_answer(instance, queues, requests, limits, nodes, row, i, now)
            continue
        found, count, cached = 0, 0, q.cached
        if q.swapped > 0:
            cached = q.input + q.made - 1
        elif nodes is not None and limits.caching:
            found, _, count = find(instance, nodes, chain_at, chain, size, i)
            cached = min(found * limits.block, q.input + q.made - 1)
        known = cached
        if q.reused > 0 and q.preemptions == 0:
            cached = min(cached + q.reused, q.input + q.made - 1)
        left = q.input + q.made - cached
        if not limits.chunked and left > budget and tokens > 0:
            break
        if not _fits(instance, heap, requests, turns, limits, nodes, chain_at, chain, size, i):
            if pins is not None and nodes is not None and instance.decoding + instance.prefilling == 0:
                if instance.first_pin >= 0:
                    unpin(pins, requests, nodes, chain_at, chain, instance.first_pin)
                    continue
            break
        need = blocks_for(wanted_tokens(q, limits), limits.block)
        c = max(min(left, budget, each), 1) if limits.chunked else left
        queues[row, 0] = q.behind
        if q.behind < 0:
            queues[row, 1] = -1
        instance.waiting -= 1
        if nodes is not None and limits.caching:
            for j in range(chain_at[i], chain_at[i] + count):
                hold(instance, nodes, chain[j])
            q.nodes = count
            q.shared = found
        instance.used += need - found + extra_blocks(q, limits)
        if nodes is not None:
            evict(instance, nodes, limits.blocks)
        q.blocks = need
        moved += 2 * q.swapped
        instance.host -= q.swapped
        q.swapped = 0
        q.cached = cached
        q.state = PREFILL
        q.left = left
        q.chunk = c
        if q.scheduled != q.scheduled:
            q.scheduled = now
            q.hit = known
            total.asked_tokens += q.input
            total.hit_tokens += known
            if pins is not None and nodes is not None:
                unpin_parents(pins, requests, nodes, chain_at, chain, i)
        q.next_prompt = -1
        if instance.prompt_tail >= 0:
            requests[instance.prompt_tail].next_prompt = i
        else:
            instance.prompt_head = i
        instance.prompt_tail = i
        instance.prefilling += 1
        enter_batch(instance, requests, i)
        done = q.input + q.made - left
        if nodes is not None and limits.caching and limits.early:
            register(instance, requests, nodes, chain_at, chain, size, i, (done + c) // limits.block)
        every = float(c) * done + 0.5 * float(c) * c
        pairs += every if limits.reach == 0.0 else _charged_pairs(every, c, limits)
        tokens += c
        sequences += 1
        budget -= c
    instance.start = now
    running = instance.decoding + instance.prefilling
    total.running_max = max(total.running_max, running)
    total.kv_max = max(total.kv_max, instance.used)
    if tokens > 0:
        decoding = instance.decoding if limits.mixed else 0
        beside = decoding * limits.step_tokens
        each_rank = (tokens + limits.cp - 1) // limits.cp
        seconds = linear[0, each_rank + beside] + limits.prompt_token_s * tokens
        seconds += limits.pair_s * pairs
        if limits.ranks > 1:
            turns_each = (sequences + limits.ranks - 1) // limits.ranks
            even = min(tokens * turns_each * limits.ranks // sequences, len(linear[0]) - 1 - beside)
            seconds += linear[1, even + beside] - linear[1, tokens + beside]
            seconds += limits.pair_s * pairs * (turns_each * limits.ranks / sequences - 1.0)
        seconds += limits.per_sequence_s * (decoding + sequences) + limits.swap_block_s * moved
        if decoding > 0:
            seconds += limits.kv_s * decoding_kv_tokens(instance) + limits.window_kv_s * instance.window
        if limits.step_tokens > 1:
            seconds += linear[2, decoding] + linear[3, tokens]
        if tokens + beside > limits.captured:
            seconds = max(seconds, limits.prompt_floor_s)
        if pipes is not None:
            waited = pass_stages(instance, pipes, seconds, each_rank + beside, decoding + sequences, now)
            total.stage_wait_s += waited
            seconds += waited
            instance.in_stages = 1
        instance.mode = ITERATION
        instance.steps = 1 if decoding > 0 else 0
        instance.first_step = seconds
        instance.slope = 0.0
        instance.end = now + seconds
        if flow is not None and decoding > 0:
            note_first_steps(requests, joined, histogram, now, seconds)
        total.prompt_iterations += 1
        total.prompt_tokens += tokens
        total.prompt_pairs += pairs
        return
    if instance.decoding == 0:
        instance.mode = IDLE
        instance.end = np.inf
        instance.ratio = limits.ratio_start
        return
    steps = steps_for(instance, limits, requests[heap[0]].finish_step - instance.step)
    if not limits.reserve:
        wanted = gained_tokens(instance, limits, steps)
        room = steps_with_room(
            turns, instance.step, instance.decoding, limits.block, limits.blocks - instance.used, wanted
        )
        if room < wanted:
            steps = steps_within(instance, limits, room)
    if (
        (limits.poll > 1 or limits.ratio_start > 0 or preempted)
        and instance.waiting > 0
        and _admissible(instance, queues, heap, requests, turns, limits, nodes, chain_at, chain, size)
    ):
        steps = min(steps, limits.poll - instance.polled)
    first = linear[0, instance.decoding * limits.step_tokens] + limits.per_sequence_s * instance.decoding
    first += limits.kv_s * decoding_kv_tokens(instance) + limits.window_kv_s * instance.window
    if limits.step_tokens > 1:
        first += linear[2, instance.decoding]
    if pipes is not None:
        if instance.in_stages == 1:
            steps = 1
        waited = pass_stages(instance, pipes, first, instance.decoding * limits.step_tokens, instance.decoding, now)
        total.stage_wait_s += waited
        first += waited
        instance.in_stages = 0 if steps > 1 else 1
    instance.mode = RUN
    instance.steps = steps
    instance.first_step = first
    instance.slope = limits.kv_s * instance.decoding * (limits.tokens_per_step * 1e-6)
    instance.end = now + (steps * first + instance.slope * (0.5 * steps * (steps - 1)))
    if flow is not None:
        note_first_steps(requests, joined, histogram, now, first)


@helper
def shorten(
    instance: Array,
    queues: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    now: float,
) -> None:
    """End a run of decode steps with the step under way, if a request that has just arrived can enter the batch."""
    if instance.ready < 0 and not _admissible(
        instance, queues, heap, requests, turns, limits, nodes, chain_at, chain, size
    ):
        return
    cut_run(instance, limits, now)


@helper
def cut_run(instance: Array, limits: Array, now: float) -> None:
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
