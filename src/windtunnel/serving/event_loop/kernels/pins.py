"""Blocks that a call leaves behind and that stay while its program runs a tool, or that are dropped at once.

What is kept counts as used. A call's pin ends when the first call that waits for it is scheduled, when its time is
over, or when its instance could run nothing else; then its blocks are evicted like others. `twin/pins.py` does this in
Python.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.prefix_tree import forget, release
from windtunnel.serving.event_loop.kernels.state import Array, Pins, PrefixTree, Record


@helper
def keep_or_drop(instance: Record, requests: Array, tree: PrefixTree, i: int) -> None:
    """Note that request i, which is over, keeps its blocks, or drop them."""
    q = requests[i]
    if q.keep < 0.0:
        forget(instance, tree, i)
    if q.pinned == 0:
        return
    if q.nodes == 0:
        q.pinned = 0
        return
    q.before = instance.last_pin
    q.after = -1
    if instance.last_pin >= 0:
        requests[instance.last_pin].after = i
    else:
        instance.first_pin = i
    instance.last_pin = i


@helper
def unpin(instances: Array, requests: Array, tree: PrefixTree, i: int) -> None:
    """End the pin of request i: its blocks are the first to be evicted of those let go last."""
    q = requests[i]
    instance = instances[q.instance]
    if q.before >= 0:
        requests[q.before].after = q.after
    else:
        instance.first_pin = q.after
    if q.after >= 0:
        requests[q.after].before = q.before
    else:
        instance.last_pin = q.before
    q.pinned = 0
    release(instance, requests, tree, i)


@helper
def unpin_parents(pins: Pins, instances: Array, requests: Array, tree: PrefixTree, i: int) -> None:
    """End the pins of the calls that request i waited for, by way of joints too."""
    start, stack = pins.start, pins.stack
    count = len(requests)
    stack[0] = i
    top = 1
    while top > 0:
        top -= 1
        n = stack[top]
        for e in range(start[n], start[n + 1]):
            p = pins.parents[e]
            if p < count:
                if requests[p].pinned:
                    unpin(instances, requests, tree, p)
            elif pins.seen[p] != i + 1:
                pins.seen[p] = i + 1
                stack[top] = p
                top += 1
