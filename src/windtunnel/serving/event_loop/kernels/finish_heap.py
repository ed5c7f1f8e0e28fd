"""The finish heap of one instance: requests that decode, ordered by (finish step, row)."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.records import Array


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
