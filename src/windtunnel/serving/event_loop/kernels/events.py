"""Heaps ordered by (time, number), and that of the events that other events bring on."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.state import Array, Events


@helper
def push(what: Array, due_s: Array, count: int, i: int, at: float) -> None:
    """Add entry i, due at a time in seconds, to a heap of `count`."""
    place = count
    while place > 0:
        parent = (place - 1) >> 1
        if due_s[parent] < at or (due_s[parent] == at and what[parent] < i):
            break
        due_s[place] = due_s[parent]
        what[place] = what[parent]
        place = parent
    due_s[place] = at
    what[place] = i


@helper
def remove_first(what: Array, due_s: Array, count: int) -> None:
    """Remove the first entry of a heap of `count`."""
    count -= 1
    at, i = due_s[count], what[count]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and (
            due_s[child + 1] < due_s[child] or (due_s[child + 1] == due_s[child] and what[child + 1] < what[child])
        ):
            child += 1
        if at < due_s[child] or (at == due_s[child] and i < what[child]):
            break
        due_s[place] = due_s[child]
        what[place] = what[child]
        place = child
    due_s[place] = at
    what[place] = i


@helper
def file_event(events: Events, i: int, at: float) -> None:
    """Add event i, due at a time in seconds."""
    push(events.what, events.due_s, events.count[0], i, at)
    events.count[0] += 1


@helper
def pop_event(events: Events) -> int:
    """Remove the first event, and return it."""
    first = events.what[0]
    remove_first(events.what, events.due_s, events.count[0])
    events.count[0] -= 1
    return first
