"""Programs of calls: what is sent when something is over, tools in service, and what is taken back.

A graph is a tuple of arrays (see `graph_state.graph_arrays`); None where requests follow one another at most, for which
the loop is compiled without any of it. `twin/waits.py` does the same in Python.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.batching import cut_run
from windtunnel.serving.event_loop.kernels.cancelling import drop_queued, drop_running
from windtunnel.serving.event_loop.kernels.events import file_event, remove_first_event
from windtunnel.serving.event_loop.kernels.prefix_tree import forget
from windtunnel.serving.event_loop.kernels.records import (
    CANCELLED,
    DONE,
    IDLE,
    IN_SERVICE,
    NEW,
    OPEN,
    OVER,
    QUEUED,
    REJECTED,
    RUN,
    TAKEN_BACK,
    WAITING,
    Array,
)


@helper
def _count_over(graph: Array, n: int, clock: Array) -> None:
    """Count a node as over; `clock[2]` counts tasks that are over by that."""
    task, left = graph[2], graph[5]
    left[task[n]] -= 1
    if left[task[n]] == 0:
        clock[2] += 1


@helper
def _serve_joint(graph: Array, j: int, events: int, later: Array, due_s: Array, filed: int, now: float) -> int:
    """Begin the service of joint j; returns the number of filed events."""
    joint = graph[7][j]
    joint.state = IN_SERVICE
    return file_event(later, due_s, filed, events + j, now + joint.seconds)


@helper
def _free_slot(graph: Array, j: int, events: int, later: Array, due_s: Array, filed: int, now: float) -> int:
    """Give the slot of joint j to the one that has waited longest; returns the number of filed events."""
    joints, servers, line, ready_s = graph[7], graph[8], graph[9], graph[10]
    if joints[j].server < 0:
        return filed
    own = servers[joints[j].server]
    own.free += 1
    first = own.first
    while own.waiting > 0:
        following = line[first]
        own.waiting = remove_first_event(line[first:], ready_s[first:], own.waiting)
        if joints[following].state == QUEUED:
            own.free -= 1
            return _serve_joint(graph, following, events, later, due_s, filed, now)
    return filed


@helper
def _cancel(
    n: int,
    top: int,
    graph: Array,
    instances: Array,
    queues: Array,
    heaps: Array,
    turns: Array,
    tokens: Array,
    requests: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    fresh: Array,
    clock: Array,
    later: Array,
    due_s: Array,
    filed: int,
    now: float,
) -> tuple[int, int]:
    """Take node n back; returns the height of the stack and the number of filed events."""
    stack, joints = graph[6], graph[7]
    count = len(graph[2]) - len(joints)
    if n >= count:
        joint = joints[n - count]
        was = joint.state
        if was == OVER or was == TAKEN_BACK:
            return top, filed
        joint.state = TAKEN_BACK
        if was == IN_SERVICE:
            filed = _free_slot(graph, n - count, 4 * len(requests), later, due_s, filed, now)
        _count_over(graph, n, clock)
        stack[top] = -1 - n
        return top + 1, filed
    q = requests[n]
    if q.cancel or q.state == DONE or q.state == REJECTED:
        return top, filed
    q.cancel = 1
    stack[top] = -1 - n
    top += 1
    if q.state == NEW:
        q.state = CANCELLED
        _count_over(graph, n, clock)
        return top, filed
    k = q.instance
    one = instances[k]
    if q.state == WAITING:
        drop_queued(one, queues[k], requests, n, now)
        tokens[k] -= q.input + q.output
        fresh[k] = True
        clock[1] += 1
        _count_over(graph, n, clock)
    elif one.mode == IDLE:  # between two iterations
        own = limits[one.pool]
        drop_running(one, heaps[k], requests, turns[k], own, nodes, chain_at, chain, size, n, now)
        if nodes is not None and own.caching and q.keep < 0.0:
            forget(one, nodes, chain_at, chain, n)
        tokens[k] -= q.input + q.output
        _count_over(graph, n, clock)
    else:
        q.behind = one.cancelled
        one.cancelled = n
        if one.mode == RUN:
            cut_run(one, limits[one.pool], now)
    return top, filed


@helper
def _bring_on(
    n: int,
    graph: Array,
    instances: Array,
    queues: Array,
    heaps: Array,
    turns: Array,
    tokens: Array,
    requests: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    fresh: Array,
    clock: Array,
    later: Array,
    due_s: Array,
    filed: int,
    now: float,
) -> int:
    """Act on node n, which is over: what it cancels, what waited for it; returns the number of filed events."""
    start, children, pending, slack = graph[0], graph[1], graph[3], graph[4]
    stack, joints, servers, line, ready_s = graph[6], graph[7], graph[8], graph[9], graph[10]
    count = len(graph[2]) - len(joints)
    events = 4 * len(requests)
    stack[0] = n
    top = 1
    while top > 0:
        top -= 1
        n = stack[top]
        if n < 0:
            n = -1 - n
            for e in range(start[n], start[n + 1]):
                c = children[e]
                slack[c] -= 1
                if slack[c] < 0 and pending[c] > 0:
                    top, filed = _cancel(
                        c, top, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes, chain_at,
                        chain, size, fresh, clock, later, due_s, filed, now,
                    )  # fmt: skip
            continue
        if n >= count:
            joint = joints[n - count]
            joint.state = OVER
            joint.over = now
            calls = joint.calls_to - joint.calls_from
            for j in range(calls + joint.joints_to - joint.joints_from):
                c = joint.calls_from + j if j < calls else count + joint.joints_from + j - calls
                top, filed = _cancel(
                    c, top, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes, chain_at,
                    chain, size, fresh, clock, later, due_s, filed, now,
                )  # fmt: skip
        _count_over(graph, n, clock)
        for e in range(start[n], start[n + 1]):
            c = children[e]
            pending[c] -= 1
            if pending[c] != 0:
                continue
            if c < count:
                if requests[c].state == NEW:
                    filed = file_event(later, due_s, filed, c, now + requests[c].delay)
                continue
            joint = joints[c - count]
            if joint.state != OPEN:
                continue
            if joint.server >= 0:
                own = servers[joint.server]
                if own.free == 0:
                    joint.state = QUEUED
                    own.waiting = file_event(line[own.first :], ready_s[own.first :], own.waiting, c - count, now)
                    continue
                own.free -= 1
            elif joint.seconds == 0.0:
                stack[top] = c
                top += 1
                continue
            filed = _serve_joint(graph, c - count, events, later, due_s, filed, now)
    return filed


@helper
def send_heads(order: Array, graph: Array, clock: Array, later: Array, due_s: Array, filed: int, at: float) -> int:
    """Send what a closed loop sends next: one request, or all those that the next task begins with.

    Args:
        order: requests that nothing brings on, in order; `clock[0]` of them are sent.
        graph: of the calls, or None.
        clock: see `serve`.
        later: heap of events.
        due_s: their times in seconds.
        filed: number of events in the heap.
        at: seconds at which they are sent.
    """
    if clock[0] >= len(order):
        return filed
    first = order[clock[0]]
    filed = file_event(later, due_s, filed, first, at)
    clock[0] += 1
    if graph is not None:
        task = graph[2]
        while clock[0] < len(order) and task[order[clock[0]]] == task[first]:
            filed = file_event(later, due_s, filed, order[clock[0]], at)
            clock[0] += 1
    return filed


@helper
def _tasks_ended(
    follow: int,
    delay: float,
    closed: bool,
    order: Array,
    graph: Array,
    clock: Array,
    later: Array,
    due_s: Array,
    filed: int,
    now: float,
) -> int:
    """Act on tasks that are over: what follows the call that ended the first, or the next tasks of a closed loop."""
    ended = clock[2]
    clock[2] = 0
    if ended > 0 and follow >= 0:
        filed = file_event(later, due_s, filed, follow, now + delay)
        ended -= 1
    if closed:
        while ended > 0:
            filed = send_heads(order, graph, clock, later, due_s, filed, now)
            ended -= 1
    return filed


@helper
def request_over(
    i: int,
    order: Array,
    graph: Array,
    instances: Array,
    queues: Array,
    heaps: Array,
    turns: Array,
    tokens: Array,
    requests: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    fresh: Array,
    clock: Array,
    later: Array,
    due_s: Array,
    filed: int,
    now: float,
) -> int:
    """Act on request i, which is done, rejected or cancelled: what it brings on; returns the number of filed events."""
    q = requests[i]
    closed = limits[0].concurrency > 0
    if graph is not None:
        if q.state == CANCELLED:
            _count_over(graph, i, clock)
        else:
            n = i
            if flow is not None and n >= len(requests) // 2:
                n -= len(requests) // 2
            filed = _bring_on(
                n, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes, chain_at, chain, size,
                fresh, clock, later, due_s, filed, now,
            )  # fmt: skip
        return _tasks_ended(q.follow, q.delay, closed, order, graph, clock, later, due_s, filed, now)
    if q.follow >= 0:
        return file_event(later, due_s, filed, q.follow, now + q.delay)
    if closed:
        return send_heads(order, graph, clock, later, due_s, filed, now + q.delay)
    return filed


@helper
def joint_event(
    event: int,
    order: Array,
    graph: Array,
    instances: Array,
    queues: Array,
    heaps: Array,
    turns: Array,
    tokens: Array,
    requests: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    fresh: Array,
    clock: Array,
    later: Array,
    due_s: Array,
    filed: int,
    now: float,
) -> int:
    """Act on the end of a joint's service, unless it was cancelled; returns the number of filed events."""
    events = 4 * len(requests)
    j = event - events
    if graph[7][j].state != IN_SERVICE:
        return filed
    filed = _free_slot(graph, j, events, later, due_s, filed, now)
    filed = _bring_on(
        len(graph[2]) - len(graph[7]) + j, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes,
        chain_at, chain, size, fresh, clock, later, due_s, filed, now,
    )  # fmt: skip
    return _tasks_ended(-1, 0.0, limits[0].concurrency > 0, order, graph, clock, later, due_s, filed, now)
