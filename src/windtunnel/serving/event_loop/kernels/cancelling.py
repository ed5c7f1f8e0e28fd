"""Requests that are taken back: they leave the queue at once, the batch between two steps."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.finish_heap import stop_decoding
from windtunnel.serving.event_loop.kernels.kv_blocks import decoded_tokens
from windtunnel.serving.event_loop.kernels.prefix_tree import free_blocks, free_decoding_blocks
from windtunnel.serving.event_loop.kernels.queues import drop_prompt, leave_batch
from windtunnel.serving.event_loop.kernels.records import CANCELLED, DECODE
from windtunnel.serving.event_loop.kernels.state import Array, Lane, PrefixTree, Record


@helper
def drop_running(lane: Lane, requests: Array, tree: PrefixTree, i: int, now: float) -> None:
    """Remove a running request from the batch for good."""
    q, instance = requests[i], lane.instance
    if q.state == DECODE:
        q.stored = decoded_tokens(instance, q)
        q.made = q.output - (q.finish_step - instance.step)
        free_decoding_blocks(lane, requests, tree, i)
        stop_decoding(instance, lane.heap, requests, i)
    else:
        free_blocks(lane, requests, tree, i, np.int64(q.blocks), q.input + q.made - q.left)
        drop_prompt(instance, requests, i)
    leave_batch(instance, requests, i)
    q.state = CANCELLED
    q.finish = now


@helper
def drop_queued(instance: Record, queues: Array, requests: Array, i: int, now: float) -> None:
    """Remove a queued request from its queue for good."""
    q = requests[i]
    c = q.priority
    at, last = queues[c, 0], -1
    while at != i:
        last = at
        at = requests[at].behind
    if last < 0:
        queues[c, 0] = q.behind
    else:
        requests[last].behind = q.behind
    if q.behind < 0:
        queues[c, 1] = last
    instance.waiting -= 1
    instance.host -= q.swapped
    q.swapped = 0
    q.state = CANCELLED
    q.finish = now
