"""What the end of an iteration, or of a run of decode steps, changes: tokens made, prompts done, answers complete."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper, pasted
from windtunnel.serving.event_loop.kernels.cancelling import drop_running
from windtunnel.serving.event_loop.kernels.disaggregation import is_answered_elsewhere
from windtunnel.serving.event_loop.kernels.finish_heap import start_decoding, stop_decoding
from windtunnel.serving.event_loop.kernels.histogram import add_gaps
from windtunnel.serving.event_loop.kernels.kv_blocks import decoded_tokens, decoding_kv_tokens, gained_tokens, growth
from windtunnel.serving.event_loop.kernels.pins import keep_or_drop
from windtunnel.serving.event_loop.kernels.prefix_tree import evict, free_blocks, free_decoding_blocks, register
from windtunnel.serving.event_loop.kernels.queues import leave_batch
from windtunnel.serving.event_loop.kernels.records import (
    CANCELLED,
    DECODE,
    DONE,
    HELD,
    IDLE,
    ITERATION,
    MILLION,
    PREFILL,
)
from windtunnel.serving.event_loop.kernels.state import Array, Lane, Loop, PrefixTree, Record


@pasted
def complete(lane: Lane, loop: Loop, now: float) -> int:
    """Account for the iteration or run that ended; returns how many requests ended with it (`loop.ended`)."""
    instance, requests, tree = lane.instance, loop.requests, loop.tree
    total, seconds = lane.total, now - instance.start
    total.busy_s += seconds
    total.running_s += seconds * (instance.decoding + instance.prefilling)
    count = 0
    if instance.steps > 0 and instance.decoding > 0:
        _count_steps(lane, tree.nodes, loop.histogram, seconds)
        count = _end_answers(lane, requests, tree, loop.ended, now)
    else:
        total.iterations += 1
        total.used_s += seconds * instance.used
    if instance.mode == ITERATION:
        count = _end_prompts(lane, loop, count, now)
    if instance.cancelled >= 0:
        count = _drop_cancelled(lane, requests, tree, loop.ended, count, now)
    if len(loop.pins.start) > 0 and lane.limits.caching:
        for j in range(count):
            keep_or_drop(instance, requests, tree, loop.ended[j])
    instance.mode = IDLE
    return count


@pasted
def _count_steps(lane: Lane, nodes: Array, histogram: Array, seconds: float) -> None:
    """Account for decode steps: times between tokens, tokens made, blocks that they took."""
    instance, limits, total = lane.instance, lane.limits, lane.total
    steps, decoding = instance.steps, instance.decoding
    add_gaps(histogram, instance.first_step, instance.slope, steps, decoding)
    total.iterations += steps
    total.decode_tokens += float(steps) * decoding
    pace = limits.tokens_per_step * 1e-6
    total.kv_tokens += steps * decoding_kv_tokens(instance) + decoding * pace * (0.5 * steps * (steps - 1))
    gained = gained_tokens(instance, limits, steps)
    if not limits.reserve:
        instance.used += growth(lane.turns, instance.step, gained, decoding, limits.block)
        if limits.caching:
            evict(instance, nodes, limits.blocks)
    total.used_s += seconds * instance.used
    total.kv_max = max(total.kv_max, instance.used)
    instance.ratio = max(instance.ratio - limits.ratio_decay * steps, limits.ratio_least)
    instance.fraction += steps * limits.tokens_per_step - gained * MILLION
    instance.step += gained
    instance.kv += float(gained) * decoding
    instance.polled = (instance.polled + steps) % max(limits.poll, 1)


@pasted
def _finish(instance: Record, requests: Array, i: int, now: float) -> None:
    """Note that a request is complete."""
    q = requests[i]
    q.state = CANCELLED if q.cancel else DONE
    q.finish = now
    q.made = q.output
    leave_batch(instance, requests, i)


@pasted
def _keeps_blocks(q: Record, limits: Record) -> bool:
    """Whether a complete request leaves blocks that are not evicted for a while."""
    return limits.caching and q.keep > 0.0 and q.cancel == 0


@pasted
def _end_answers(lane: Lane, requests: Array, tree: PrefixTree, ended: Array, now: float) -> int:
    """End the answers whose last token has been made; returns how many."""
    instance, heap = lane.instance, lane.heap
    count = 0
    while instance.decoding > 0 and requests[heap[0]].finish_step <= instance.step:
        i = np.int64(heap[0])
        q = requests[i]
        q.stored = decoded_tokens(instance, q)
        if _keeps_blocks(q, lane.limits):
            q.pinned = 1
        free_decoding_blocks(lane, requests, tree, i)
        stop_decoding(instance, heap, requests, i)
        _finish(instance, requests, i, now)
        ended[count] = i
        count += 1
    return count


@pasted
def _end_prompts(lane: Lane, loop: Loop, count: int, now: float) -> int:
    """Account for the prompts of an iteration; returns how many requests have ended by now."""
    instance, limits, requests, tree = lane.instance, lane.limits, loop.requests, loop.tree
    i, last = np.int64(instance.prompt_head), np.int64(-1)
    while i >= 0:
        q = requests[i]
        follow = q.next_prompt
        q.left -= q.chunk
        q.chunk = 0
        if limits.caching:
            register(instance, requests, tree, i, (q.input + q.made - q.left) // limits.block)
        if q.left > 0:
            last = i
            i = follow
            continue
        if last < 0:
            instance.prompt_head = follow
        else:
            requests[last].next_prompt = follow
        if follow < 0:
            instance.prompt_tail = last
        instance.prefilling -= 1
        q.stored = q.input + q.made
        if q.made == 0:
            q.first = now
        elif q.finish == q.finish:
            add_gaps(loop.histogram, now - q.finish, 0.0, 1, 1)
        q.made += 1
        if is_answered_elsewhere(instance, requests, i, loop.transfer.rule):
            q.state = HELD
            q.finish = now
            leave_batch(instance, requests, i)
            loop.ended[count] = i
            count += 1
        elif q.made >= q.output:
            if _keeps_blocks(q, limits):
                q.pinned = 1
            free_blocks(lane, requests, tree, i, np.int64(q.blocks), np.int64(q.stored))
            _finish(instance, requests, i, now)
            loop.ended[count] = i
            count += 1
        else:
            start_decoding(lane, requests, i)
        i = follow
    return count


@helper
def _drop_cancelled(lane: Lane, requests: Array, tree: PrefixTree, ended: Array, count: int, now: float) -> int:
    """Remove running requests that were taken back meanwhile; returns how many requests have ended by now."""
    instance = lane.instance
    i = np.int64(instance.cancelled)
    instance.cancelled = -1
    while i >= 0:
        q = requests[i]
        if q.state == DECODE or q.state == PREFILL:
            drop_running(lane, requests, tree, i, now)
            ended[count] = i
            count += 1
        i = q.behind
    return count
