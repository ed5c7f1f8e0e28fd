"""Queues of requests that wait, and linked lists of those in a batch."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.records import CLASSES, WAITING
from windtunnel.serving.event_loop.kernels.state import Array, Record


@helper
def enqueue(instance: Record, queues: Array, requests: Array, i: int, front: bool) -> None:
    """Put a request into the queue of its class, at the end or (preempted) at the front."""
    q = requests[i]
    c = q.priority
    q.state = WAITING
    instance.waiting += 1
    if queues[c, 0] < 0:
        q.behind = -1
        queues[c, 0] = i
        queues[c, 1] = i
    elif front:
        q.behind = queues[c, 0]
        queues[c, 0] = i
    else:
        q.behind = -1
        requests[queues[c, 1]].behind = i
        queues[c, 1] = i


@helper
def first_class(queues: Array) -> int:
    """The class of priority that is served next, or −1 where no request waits."""
    for c in range(CLASSES):
        if queues[c, 0] >= 0:
            return c
    return -1


@helper
def leave_queue(instance: Record, queues: Array, requests: Array, row: int) -> None:
    """Remove the first request from the queue of a class."""
    q = requests[queues[row, 0]]
    queues[row, 0] = q.behind
    if q.behind < 0:
        queues[row, 1] = -1
    instance.waiting -= 1


@helper
def leave_batch(instance: Record, requests: Array, i: int) -> None:
    """Remove a request from the order of admission."""
    q = requests[i]
    if q.before >= 0:
        requests[q.before].after = q.after
    if q.after >= 0:
        requests[q.after].before = q.before
    else:
        instance.newest = q.before


@helper
def enter_batch(instance: Record, requests: Array, i: int) -> None:
    """Put a request last in the order of admission."""
    q = requests[i]
    q.before = instance.newest
    q.after = -1
    if instance.newest >= 0:
        requests[instance.newest].after = i
    instance.newest = i


@helper
def add_prompt(instance: Record, requests: Array, i: int) -> None:
    """Put a request last among the prompts under way."""
    requests[i].next_prompt = -1
    if instance.prompt_tail >= 0:
        requests[instance.prompt_tail].next_prompt = i
    else:
        instance.prompt_head = i
    instance.prompt_tail = i
    instance.prefilling += 1


@helper
def drop_prompt(instance: Record, requests: Array, i: int) -> None:
    """Remove a request from the prompts under way."""
    at, last = instance.prompt_head, -1
    while at != i:
        last = at
        at = requests[at].next_prompt
    follow = requests[i].next_prompt
    if last < 0:
        instance.prompt_head = follow
    else:
        requests[last].next_prompt = follow
    if follow < 0:
        instance.prompt_tail = last
    instance.prefilling -= 1
