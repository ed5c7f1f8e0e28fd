"""Requests that leave the batch so that others have blocks."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.finish_heap import stop_decoding
from windtunnel.serving.event_loop.kernels.kv_blocks import blocks_for, decoded_tokens
from windtunnel.serving.event_loop.kernels.prefix_tree import free_blocks, free_decoding_blocks
from windtunnel.serving.event_loop.kernels.queues import drop_prompt, enqueue, leave_batch
from windtunnel.serving.event_loop.kernels.records import DECODE
from windtunnel.serving.event_loop.kernels.state import Array, Lane, PrefixTree, Record


@helper
def _made_least(instance: Record, heap: Array, requests: Array) -> int:
    """The decoding request that made the fewest tokens; of equals the longest prompt, then the last to arrive."""
    least = heap[0]
    for p in range(1, instance.decoding):
        i = heap[p]
        q, other = requests[i], requests[least]
        more = (q.output - q.finish_step) - (other.output - other.finish_step)
        if more < 0 or (more == 0 and (q.input > other.input or (q.input == other.input and i > least))):
            least = i
    return least


@helper
def preempt(lane: Lane, requests: Array, tree: PrefixTree, now: float) -> None:
    """Preempt a request: its cache is dropped or swapped to the host, and it is queued again."""
    instance, limits = lane.instance, lane.limits
    i = np.int64(instance.newest)
    if limits.least_made and limits.step_tokens == 1 and instance.decoding > 1:
        i = np.int64(_made_least(instance, lane.heap, requests))
    q = requests[i]
    if q.state == DECODE:
        q.stored = decoded_tokens(instance, q)
        q.made = q.output - (q.finish_step - instance.step)
        q.finish = now  # its last token so far
        blocks = blocks_for(q.stored + limits.lookahead, limits.block)
        if instance.host + blocks <= limits.swap_blocks:
            instance.host += blocks
            q.swapped = blocks
        free_decoding_blocks(lane, requests, tree, i)
        stop_decoding(instance, lane.heap, requests, i)
    else:
        free_blocks(lane, requests, tree, i, np.int64(q.blocks), q.input + q.made - q.left)
        drop_prompt(instance, requests, i)
    leave_batch(instance, requests, i)
    q.cached = 0
    q.preemptions += 1
    lane.total.preemptions += 1
    enqueue(instance, lane.queues, requests, i, not limits.taken_last)
