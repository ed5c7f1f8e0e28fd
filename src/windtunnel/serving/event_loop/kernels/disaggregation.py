"""KV between instances: a prompt ends on one instance, its answer begins on another.

Row i of the requests is the prompt, row i + half its answer: each waits, holds blocks and leaves on its own instance.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.events import file_event
from windtunnel.serving.event_loop.kernels.finish_heap import sift_up
from windtunnel.serving.event_loop.kernels.histogram import add_gaps
from windtunnel.serving.event_loop.kernels.kv_blocks import blocks_for, extra_blocks, too_long, wanted_tokens
from windtunnel.serving.event_loop.kernels.prefix_tree import evict, free_blocks
from windtunnel.serving.event_loop.kernels.queues import enqueue, enter_batch
from windtunnel.serving.event_loop.kernels.records import (
    DECODE,
    DECODE_FIRST,
    DONE,
    MOVING,
    READY,
    REJECTED,
    TRANSFER_FIRST,
    Array,
)
from windtunnel.serving.event_loop.kernels.routing import route


@helper
def is_answered_elsewhere(instance: Array, requests: Array, i: int, flow: Array) -> bool:
    """Whether another instance answers a prompt that this one computes."""
    if instance.prefill_only == 0:
        return False
    return requests[i + len(requests) // 2].output > 1 or flow[4][0].first == DECODE_FIRST


@helper
def hold_for_answer(
    instance: Array, queues: Array, requests: Array, limits: Array, nodes: Array, row: int, i: int, now: float
) -> None:
    """Keep blocks for an answer whose cache is elsewhere."""
    q = requests[i]
    queues[row, 0] = q.behind
    if q.behind < 0:
        queues[row, 1] = -1
    instance.waiting -= 1
    q.blocks = blocks_for(wanted_tokens(q, limits), limits.block)
    instance.used += q.blocks + extra_blocks(q, limits)
    if nodes is not None:
        evict(instance, nodes, limits.blocks)
    q.state = MOVING
    q.scheduled = now
    instance.prefilling += 1
    q.next_prompt = -1
    if instance.last_admitted >= 0:
        requests[instance.last_admitted].next_prompt = i
    else:
        instance.admitted = i
    instance.last_admitted = i


@helper
def join(instance: Array, heap: Array, requests: Array, turns: Array, limits: Array, flow: Array, now: float) -> None:
    """Move answers whose cache has arrived into the batch: they decode from now on."""
    i = instance.ready
    while i >= 0:
        q = requests[i]
        q.state = DECODE
        q.swapped = 0
        q.stored = q.input + q.made - 1
        q.finish_step = instance.step + q.output - q.made
        heap[instance.decoding] = i
        instance.decoding += 1
        instance.prefilling -= 1
        sift_up(heap, requests, instance.decoding - 1)
        instance.kv += q.stored + 1
        q.held = min(q.stored + 1 + (q.output - q.made) // 2, limits.window)
        instance.window += q.held
        if not limits.reserve:
            turns[(q.stored + limits.lookahead - instance.step) % limits.block] += 1
        enter_batch(instance, requests, i)
        if flow[4][0].first == TRANSFER_FIRST:
            q.first = now
        i = q.next_prompt
    instance.ready = -1
    instance.last_ready = -1


@helper
def note_first_steps(requests: Array, joined: int, histogram: Array, now: float, seconds: float) -> None:
    """Count the first step of answers that have just joined: their first token, or the time since that token."""
    half = len(requests) // 2
    i = joined
    while i >= 0:
        q = requests[i]
        if q.state == DECODE:
            if q.made == 0:
                q.first = now + seconds
                add_gaps(histogram, seconds, 0.0, 1, -1)
            elif q.first != q.first:
                add_gaps(histogram, seconds, 0.0, 1, -1)
                add_gaps(histogram, now + seconds - requests[i - half].first, 0.0, 1, 1)
        i = q.next_prompt


@helper
def _move(
    requests: Array,
    limits: Array,
    flow: Array,
    i: int,
    begin: float,
    pieces: int,
    later: Array,
    due_s: Array,
    count: int,
    now: float,
) -> int:
    """Start the transfer of the cache of answer i, and add its end to the events.

    Args:
        requests: rows of prompts, then of answers.
        limits: the limits of the answering instance's pool.
        flow: arrays of the KV transfers (see `serve.serve`).
        i: the answer's row.
        begin: when the first piece can leave.
        pieces: pieces of the cache; the last one leaves when the prompt ends, `now`.
        later: heap of events.
        due_s: their times in seconds.
        count: number of events in the heap.
        now: the prompt's end, or later.
    """
    token_s, fixed_s, port, busy, _ = flow
    q = requests[i]
    half = len(requests) // 2
    a, b = requests[i - half].instance, q.instance
    tokens = float(q.input) + limits.window_share * float(min(q.input, limits.window))
    alone = fixed_s[a, b] + token_s[0, a, b] * tokens
    busy[port[a]] = max(busy[port[a]], begin) + token_s[1, a, b] * tokens
    busy[port[b]] = max(busy[port[b]], begin) + token_s[2, a, b] * tokens
    end = max(begin + alone, busy[port[a]], busy[port[b]])
    end = max(end, now + fixed_s[a, b] + (alone - fixed_s[a, b]) / pieces)
    return file_event(later, due_s, count, i + half, end)


@helper
def _pieces_of(p: Array, rule: Array) -> int:
    """Number of pieces of a prompt's cache, of which all but the last leave while it is computed."""
    if rule.chunk > 0:
        return max((p.input - p.hit + rule.chunk - 1) // rule.chunk, 1)
    return rule.pieces


@helper
def send(
    instance: Array, requests: Array, limits: Array, flow: Array, later: Array, due_s: Array, count: int, now: float
) -> int:
    """Act on answers that have just got blocks: their caches leave now, or (`early`) their prompts may begin."""
    rule = flow[4][0]
    i = instance.admitted
    while i >= 0:
        if rule.early:
            count = file_event(later, due_s, count, i, now + rule.control)
        else:
            count = _move(requests, limits, flow, i, now, 1, later, due_s, count, now)
        i = requests[i].next_prompt
    instance.admitted = -1
    instance.last_admitted = -1
    return count


@helper
def prompt_ended(
    requests: Array, limits: Array, flow: Array, i: int, later: Array, due_s: Array, count: int, now: float
) -> int:
    """Act on the computed prompt of row i: its answer asks for an instance, or (`early`) its cache leaves."""
    rule = flow[4][0]
    half = len(requests) // 2
    p = requests[i]
    if not rule.early:
        return file_event(later, due_s, count, i + half, now + rule.control)
    pieces = _pieces_of(p, rule)
    begin = p.scheduled + (now - p.scheduled) / pieces
    return _move(requests, limits, flow, i + half, begin, pieces, later, due_s, count, now)


@helper
def _receive_kv(instance: Array, requests: Array, i: int, now: float) -> None:
    """Note that the cache of answer i has arrived: it joins the batch when the next iteration is formed."""
    q = requests[i]
    q.state = READY
    q.arrival = now
    q.next_prompt = -1
    if instance.last_ready >= 0:
        requests[instance.last_ready].next_prompt = i
    else:
        instance.ready = i
    instance.last_ready = i


@helper
def ask(
    instances: Array,
    queues: Array,
    tokens: Array,
    requests: Array,
    i: int,
    limits: Array,
    asking: Array,
    home: Array,
    flow: Array,
) -> bool:
    """Choose who answers a prompt, and queue it there; false when no cache there could ever hold it."""
    q = requests[i]
    rule = flow[4][0]
    turn = np.int64(asking[1])
    asking[1] += np.uint64(1)
    k = route(instances, tokens, q, rule.router, int(turn), asking, home, rule.entries, len(instances))
    q.instance = k
    if too_long(instances[k], q, limits[instances[k].pool]):
        q.state = REJECTED
        return False
    q.made = 0 if rule.first == DECODE_FIRST else 1
    q.swapped = -1
    tokens[k] += q.input + q.output
    enqueue(instances[k], queues[k], requests, i, False)
    return True


@helper
def pass_on(
    instances: Array,
    queues: Array,
    tokens: Array,
    requests: Array,
    event: int,
    limits: Array,
    asking: Array,
    home: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    now: float,
) -> tuple[int, int, int]:
    """Act on a message between instances; returns the two instances that it touches and the rejected row, or −1.

    The event is the answer's row: its prompt is computed, or (`early`) it has blocks for it. From twice the number of
    prompts on, the event says that the answer's cache has arrived.
    """
    half = len(requests) // 2
    if event < 2 * half and flow[4][0].early:
        k = requests[event - half].instance
        instances[k].promised -= 1
        enqueue(instances[k], queues[k], requests, event - half, False)
        return k, -1, -1
    if event < 2 * half:
        if ask(instances, queues, tokens, requests, event, limits, asking, home, flow):
            return requests[event].instance, -1, -1
        prompt, answers, away = event - half, -1, event
    else:
        prompt, answers, away = event - 2 * half, requests[event - half].instance, -1
        _receive_kv(instances[answers], requests, event - half, now)
    p = requests[prompt]
    one = instances[p.instance]
    own = limits[one.pool]
    free_blocks(one, requests, prompt, own, nodes, chain_at, chain, size, p.blocks, p.stored)
    p.state = DONE if away < 0 else REJECTED
    return answers, p.instance, away
