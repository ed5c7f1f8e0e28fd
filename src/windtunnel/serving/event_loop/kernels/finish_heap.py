"""Requests that decode on one instance: a heap ordered by (finish step, number)."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper, pasted
from windtunnel.serving.event_loop.kernels.records import DECODE
from windtunnel.serving.event_loop.kernels.state import Array, Lane, Record


@helper
def _ends_before(requests: Array, a: int, b: int) -> bool:
    """Whether request a makes its last token before request b; of equals, the lower row is first."""
    x, y = requests[a].finish_step, requests[b].finish_step
    return x < y or (x == y and a < b)


@helper
def sift_up(heap: Array, requests: Array, at: int) -> None:
    """Move the entry at a place up until its parent ends before it."""
    item = heap[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not _ends_before(requests, item, heap[parent]):
            break
        heap[at] = heap[parent]
        requests[heap[at]].place = at
        at = parent
    heap[at] = item
    requests[item].place = at


@helper
def _sift_down(heap: Array, requests: Array, at: int, count: int) -> None:
    """Move the entry at a place down until it ends before its children."""
    item = heap[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _ends_before(requests, heap[child + 1], heap[child]):
            child += 1
        if not _ends_before(requests, heap[child], item):
            break
        heap[at] = heap[child]
        requests[heap[at]].place = at
        at = child
    heap[at] = item
    requests[item].place = at


@helper
def remove(heap: Array, requests: Array, at: int, count: int) -> None:
    """Remove the entry at a place from a heap of `count`."""
    last = heap[count - 1]
    if at == count - 1:
        return
    heap[at] = last
    requests[last].place = at
    _sift_down(heap, requests, at, count - 1)
    sift_up(heap, requests, requests[last].place)


@pasted
def start_decoding(lane: Lane, requests: Array, i: int) -> None:
    """Put a request, whose cache is on the instance, among those that decode."""
    q, instance, limits = requests[i], lane.instance, lane.limits
    q.state = DECODE
    q.finish_step = instance.step + q.output - q.made
    lane.heap[instance.decoding] = i
    instance.decoding += 1
    sift_up(lane.heap, requests, instance.decoding - 1)
    instance.kv += q.stored + 1
    q.held = min(q.stored + 1 + (q.output - q.made) // 2, limits.window)
    instance.window += q.held
    if not limits.reserve:
        lane.turns[(q.stored + limits.lookahead - instance.step) % limits.block] += 1


@pasted
def stop_decoding(instance: Record, heap: Array, requests: Array, i: int) -> None:
    """Remove a request from those that decode; `stored` tokens of it are in the cache."""
    q = requests[i]
    remove(heap, requests, q.place, instance.decoding)
    instance.decoding -= 1
    instance.kv -= q.stored + 1
    instance.window -= q.held
