"""What the end of an iteration, or of a run of decode steps, changes: tokens made, prompts done, answers complete."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.cancelling import drop_running
from windtunnel.serving.event_loop.kernels.disaggregation import is_answered_elsewhere
from windtunnel.serving.event_loop.kernels.finish_heap import remove, sift_up
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
    Array,
)


@helper
def _finish(instance: Array, requests: Array, i: int, now: float, ended: Array, count: int) -> int:
    """Note that a request is complete; returns how many have ended."""
    q = requests[i]
    q.state = CANCELLED if q.cancel else DONE
    q.finish = now
    q.made = q.output
    leave_batch(instance, requests, i)
    ended[count] = i
    return count + 1


@helper
def complete(
    instance: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    total: Array,
    limits: Array,
    histogram: Array,
    ended: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    graph: Array,
    pins: Array,
    now: float,
) -> int:
    """Account for the iteration or run that ended; returns how many requests ended with it."""
    count = 0
    steps, decoding = instance.steps, instance.decoding
    seconds = now - instance.start
    total.busy_s += seconds
    total.running_s += seconds * (decoding + instance.prefilling)
    if steps > 0 and decoding > 0:
        add_gaps(histogram, instance.first_step, instance.slope, steps, decoding)
        total.iterations += steps
        total.decode_tokens += float(steps) * decoding
        pace = limits.tokens_per_step * 1e-6
        total.kv_tokens += steps * decoding_kv_tokens(instance) + decoding * pace * (0.5 * steps * (steps - 1))
        gained = gained_tokens(instance, limits, steps)
        if not limits.reserve:
            instance.used += growth(turns, instance.step, gained, decoding, limits.block)
            if nodes is not None:
                evict(instance, nodes, limits.blocks)
        total.used_s += seconds * instance.used
        total.kv_max = max(total.kv_max, instance.used)
        instance.ratio = max(instance.ratio - limits.ratio_decay * steps, limits.ratio_least)
        instance.fraction += steps * limits.tokens_per_step - gained * MILLION
        instance.step += gained
        instance.kv += float(gained) * decoding
        instance.polled = (instance.polled + steps) % max(limits.poll, 1)
        while instance.decoding > 0 and requests[heap[0]].finish_step <= instance.step:
            i = heap[0]
            q = requests[i]
            q.stored = decoded_tokens(instance, q)
            if pins is not None and nodes is not None and limits.caching and q.keep > 0.0 and q.cancel == 0:
                q.pinned = 1
            free_decoding_blocks(instance, requests, turns, i, limits, nodes, chain_at, chain, size)
            remove(heap, requests, 0, instance.decoding)
            instance.decoding -= 1
            instance.kv -= q.stored + 1
            instance.window -= q.held
            count = _finish(instance, requests, i, now, ended, count)
    else:
        total.iterations += 1
        total.used_s += seconds * instance.used
    if instance.mode == ITERATION:
        i, last = instance.prompt_head, -1
        while i >= 0:
            q = requests[i]
            follow = q.next_prompt
            q.left -= q.chunk
            q.chunk = 0
            if nodes is not None and limits.caching:
                done = (q.input + q.made - q.left) // limits.block
                register(instance, requests, nodes, chain_at, chain, size, i, done)
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
                add_gaps(histogram, now - q.finish, 0.0, 1, 1)
            q.made += 1
            if flow is not None and is_answered_elsewhere(instance, requests, i, flow):
                q.state = HELD
                q.finish = now
                leave_batch(instance, requests, i)
                ended[count] = i
                count += 1
            elif q.made >= q.output:
                if pins is not None and nodes is not None and limits.caching and q.keep > 0.0 and q.cancel == 0:
                    q.pinned = 1
                free_blocks(instance, requests, i, limits, nodes, chain_at, chain, size, q.blocks, q.stored)
                count = _finish(instance, requests, i, now, ended, count)
            else:
                q.state = DECODE
                q.finish_step = instance.step + q.output - q.made
                heap[instance.decoding] = i
                instance.decoding += 1
                sift_up(heap, requests, instance.decoding - 1)
                instance.kv += q.stored + 1
                q.held = min(q.stored + 1 + (q.output - q.made) // 2, limits.window)
                instance.window += q.held
                if not limits.reserve:
                    turns[(q.stored + limits.lookahead - instance.step) % limits.block] += 1
            i = follow
    if graph is not None:
        i = instance.cancelled
        instance.cancelled = -1
        while i >= 0:
            q = requests[i]
            if q.state == DECODE or q.state == PREFILL:
                drop_running(instance, heap, requests, turns, limits, nodes, chain_at, chain, size, i, now)
                ended[count] = i
                count += 1
            i = q.behind
    if pins is not None and nodes is not None and limits.caching:
        for j in range(count):
            keep_or_drop(instance, requests, nodes, chain_at, chain, ended[j])
    instance.mode = IDLE
    return count
