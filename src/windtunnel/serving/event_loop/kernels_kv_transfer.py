"""Caches between instances, for the jitted loop: a prompt ends on one instance, its answer begins on another.

Row i of the requests is the prompt, row i + half its answer: each waits, holds blocks and leaves on its own instance.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.jit import helper

Array = Any

HELD, MOVING, READY = range(6, 9)
"""Further states: a prompt whose cache another instance waits for; an answer that has blocks, whose cache is on its
way or not computed yet; one whose cache has come."""
PREFILL_FIRST, TRANSFER_FIRST, DECODE_FIRST = range(3)
HANDOVER = np.dtype(
    [(name, "f8") for name in ("control",)]
    + [(name, "i8") for name in ("pieces", "chunk", "early", "first", "router", "entries")]
)
"""Scalars of `fleet.KvTransfer`; `entries`: lanes that take requests in."""


@helper
def file(later: Array, when: Array, count: int, i: int, at: float) -> int:
    """Add event i, due at a time, to the heap of later events."""
    place = count
    while place > 0:
        parent = (place - 1) >> 1
        if when[parent] < at or (when[parent] == at and later[parent] < i):
            break
        when[place] = when[parent]
        later[place] = later[parent]
        place = parent
    when[place] = at
    later[place] = i
    return count + 1


@helper
def move(
    requests: Array,
    limits: Array,
    flow: Array,
    i: int,
    begin: float,
    pieces: int,
    later: Array,
    when: Array,
    count: int,
    now: float,
) -> int:
    """Send the cache of answer i on its way; its end is filed.

    Args:
        requests: rows of prompts, then of answers.
        limits: of the answering instance's pool.
        flow: arrays of the handover.
        i: the answer's row.
        begin: when the first piece can leave.
        pieces: the last of so many leaves when the prompt ends, `now`.
        later: heap of later events.
        when: their times.
        count: how many.
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
    return file(later, when, count, i + half, end)


@helper
def pieces_of(p: Array, rule: Array) -> int:
    """Pieces of a prompt's cache, of which all but the last leave while it is computed."""
    if rule.chunk > 0:
        return max((p.input - p.hit + rule.chunk - 1) // rule.chunk, 1)
    return rule.pieces


@helper
def send(
    instance: Array, requests: Array, limits: Array, flow: Array, later: Array, when: Array, count: int, now: float
) -> int:
    """Answers that have just got blocks: caches leave now, or (told first) their prompts may begin."""
    rule = flow[4][0]
    i = instance.admitted
    while i >= 0:
        if rule.early:
            count = file(later, when, count, i, now + rule.control)
        else:
            count = move(requests, limits, flow, i, now, 1, later, when, count, now)
        i = requests[i].next_prompt
    instance.admitted = -1
    instance.last_admitted = -1
    return count


@helper
def prompt_ended(
    requests: Array, limits: Array, flow: Array, i: int, later: Array, when: Array, count: int, now: float
) -> int:
    """The prompt of row i is computed: its answer is told, or (told before) its cache leaves."""
    rule = flow[4][0]
    half = len(requests) // 2
    p = requests[i]
    if not rule.early:
        return file(later, when, count, i + half, now + rule.control)
    pieces = pieces_of(p, rule)
    begin = p.scheduled + (now - p.scheduled) / pieces
    return move(requests, limits, flow, i + half, begin, pieces, later, when, count, now)


@helper
def came(instance: Array, requests: Array, i: int, now: float) -> None:
    """The cache of answer i is there: it joins the batch when the next iteration is formed."""
    q = requests[i]
    q.state = READY
    q.arrival = now
    q.next_prompt = -1
    if instance.last_ready >= 0:
        requests[instance.last_ready].next_prompt = i
    else:
        instance.ready = i
    instance.last_ready = i
