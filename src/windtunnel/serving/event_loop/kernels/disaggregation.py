"""KV between instances: a prompt ends on one instance, its answer begins on another.

Request i is the prompt, request i + half its answer: each waits, holds blocks and leaves on its own instance.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper, pasted
from windtunnel.serving.event_loop.kernels.events import file_event
from windtunnel.serving.event_loop.kernels.finish_heap import start_decoding
from windtunnel.serving.event_loop.kernels.histogram import add_gaps
from windtunnel.serving.event_loop.kernels.kv_blocks import blocks_for, extra_blocks, too_long, wanted_tokens
from windtunnel.serving.event_loop.kernels.prefix_tree import evict, free_blocks
from windtunnel.serving.event_loop.kernels.queues import enqueue, enter_batch, leave_queue
from windtunnel.serving.event_loop.kernels.records import (
    DECODE,
    DECODE_FIRST,
    DONE,
    MOVING,
    READY,
    REJECTED,
    TRANSFER_FIRST,
)
from windtunnel.serving.event_loop.kernels.routing import route
from windtunnel.serving.event_loop.kernels.state import (
    Array,
    Events,
    Fleet,
    Lane,
    PrefixTree,
    Record,
    Routing,
    Transfer,
    lane_of,
)


@helper
def is_answered_elsewhere(instance: Record, requests: Array, i: int, rule: Array) -> bool:
    """Whether another instance answers a prompt that this one computes."""
    if instance.prefill_only == 0:
        return False
    return requests[i + len(requests) // 2].output > 1 or rule[0].first == DECODE_FIRST


@helper
def hold_for_answer(lane: Lane, requests: Array, nodes: Array, row: int, now: float) -> None:
    """Keep blocks for the first answer of a queue, whose cache is elsewhere."""
    instance, limits = lane.instance, lane.limits
    i = lane.queues[row, 0]
    q = requests[i]
    leave_queue(instance, lane.queues, requests, row)
    q.blocks = blocks_for(wanted_tokens(q, limits), limits.block)
    instance.used += q.blocks + extra_blocks(q, limits)
    if limits.caching:
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
def join(lane: Lane, requests: Array, rule: Array, now: float) -> None:
    """Move answers whose cache has arrived into the batch: they decode from now on."""
    instance = lane.instance
    i = np.int64(instance.ready)
    while i >= 0:
        q = requests[i]
        q.swapped = 0
        q.stored = q.input + q.made - 1
        instance.prefilling -= 1
        start_decoding(lane, requests, i)
        enter_batch(instance, requests, i)
        if rule[0].first == TRANSFER_FIRST:
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
    requests: Array, limits: Record, transfer: Transfer, i: int, begin: float, pieces: int, events: Events, now: float
) -> None:
    """Start the transfer of the cache of answer i, and file its end.

    Args:
        requests: prompts, then answers.
        limits: the limits of the answering instance's pool.
        transfer: links and ports.
        i: the answer.
        begin: when the first piece can leave.
        pieces: pieces of the cache; the last one leaves when the prompt ends, `now`.
        events: to come.
        now: the prompt's end, or later.
    """
    token_s, fixed_s, port, busy = transfer.token_s, transfer.fixed_s, transfer.port, transfer.busy
    q = requests[i]
    half = len(requests) // 2
    a, b = requests[i - half].instance, q.instance
    tokens = float(q.input) + limits.window_share * float(min(q.input, limits.window))
    alone = fixed_s[a, b] + token_s[0, a, b] * tokens
    busy[port[a]] = max(busy[port[a]], begin) + token_s[1, a, b] * tokens
    busy[port[b]] = max(busy[port[b]], begin) + token_s[2, a, b] * tokens
    end = max(begin + alone, busy[port[a]], busy[port[b]])
    end = max(end, now + fixed_s[a, b] + (alone - fixed_s[a, b]) / pieces)
    file_event(events, i + half, end)


@helper
def _pieces_of(p: Record, rule: Record) -> int:
    """Number of pieces of a prompt's cache, of which all but the last leave while it is computed."""
    if rule.chunk > 0:
        return max((p.input - p.hit + rule.chunk - 1) // rule.chunk, 1)
    return rule.pieces


@helper
def send(lane: Lane, requests: Array, transfer: Transfer, events: Events, now: float) -> None:
    """Act on answers that have just got blocks: their caches leave now, or (`early`) their prompts may begin."""
    instance, rule = lane.instance, transfer.rule[0]
    i = np.int64(instance.admitted)
    while i >= 0:
        if rule.early:
            file_event(events, i, now + rule.control)
        else:
            _move(requests, lane.limits, transfer, i, now, np.int64(1), events, now)
        i = requests[i].next_prompt
    instance.admitted = -1
    instance.last_admitted = -1


@helper
def prompt_ended(requests: Array, limits: Record, transfer: Transfer, i: int, events: Events, now: float) -> None:
    """Act on the computed prompt i: its answer asks for an instance, or (`early`) its cache leaves."""
    rule = transfer.rule[0]
    half = len(requests) // 2
    p = requests[i]
    if not rule.early:
        file_event(events, i + half, now + rule.control)
        return
    pieces = _pieces_of(p, rule)
    begin = p.scheduled + (now - p.scheduled) / pieces
    _move(requests, limits, transfer, i + half, begin, pieces, events, now)


@helper
def _receive_kv(instance: Record, requests: Array, i: int, now: float) -> None:
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
def ask(fleet: Fleet, requests: Array, i: int, routing: Routing, rule: Record) -> bool:
    """Choose who answers a prompt, and queue it there; false when no cache there could ever hold it."""
    q = requests[i]
    k = route(fleet, q, rule.router, routing, len(routing.groups) - 1)
    q.instance = k
    if too_long(q, fleet.limits[fleet.instances[k].pool]):
        q.state = REJECTED
        return False
    q.made = 0 if rule.first == DECODE_FIRST else 1
    q.swapped = -1
    fleet.tokens[k] += q.input + q.output
    enqueue(fleet.instances[k], fleet.queues[k], requests, i, False)
    return True


@pasted
def pass_on(
    fleet: Fleet, requests: Array, event: int, routing: Routing, tree: PrefixTree, rule: Record, now: float
) -> tuple[int, int, int]:
    """Act on a message between instances; returns the two instances that it touches and the rejected answer, or −1.

    The event is the answer's number: its prompt is computed, or (`early`) it has blocks for it. From twice the number
    of prompts on, the event says that the answer's cache has arrived.
    """
    half = len(requests) // 2
    instances = fleet.instances
    if event < 2 * half and rule.early:
        k = requests[event - half].instance
        instances[k].promised -= 1
        enqueue(instances[k], fleet.queues[k], requests, event - half, False)
        return np.int64(k), -1, -1
    if event < 2 * half:
        if ask(fleet, requests, event, routing, rule):
            return np.int64(requests[event].instance), -1, -1
        prompt, answers, away = event - half, -1, event
    else:
        prompt, answers, away = event - 2 * half, requests[event - half].instance, -1
        _receive_kv(instances[answers], requests, event - half, now)
    p = requests[prompt]
    free_blocks(lane_of(fleet, p.instance), requests, tree, prompt, np.int64(p.blocks), np.int64(p.stored))
    p.state = DONE if away < 0 else REJECTED
    return np.int64(answers), np.int64(p.instance), away
