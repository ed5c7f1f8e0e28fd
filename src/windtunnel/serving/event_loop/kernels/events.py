"""The heap of events that other requests bring on, ordered by (time, row)."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.records import Array


@helper
def file_event(later: Array, due_s: Array, count: int, i: int, at: float) -> int:
    """Add event i, due at a time, to the heap of later events; returns their number."""
    place = count
    while place > 0:
        parent = (place - 1) >> 1
        if due_s[parent] < at or (due_s[parent] == at and later[parent] < i):
            break
        due_s[place] = due_s[parent]
        later[place] = later[parent]
        place = parent
    due_s[place] = at
    later[place] = i
    return count + 1


@helper
def remove_first_event(later: Array, due_s: Array, count: int) -> int:
    """Remove the first of the later events; returns their number."""
    count -= 1
    at, i = due_s[count], later[count]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and (
            due_s[child + 1] < due_s[child] or (due_s[child + 1] == due_s[child] and later[child + 1] < later[child])
        ):
            child += 1
        if at < due_s[child] or (at == due_s[child] and i < later[child]):
            break
        due_s[place] = due_s[child]
        later[place] = later[child]
        place = child
    due_s[place] = at
    later[place] = i
    return count
