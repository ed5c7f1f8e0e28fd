"""Programs of calls: what is sent when something is over, tools in service, and what is taken back.

`twin/waits.py` does the same in Python.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper, pasted
from windtunnel.serving.event_loop.kernels.batching import cut_run
from windtunnel.serving.event_loop.kernels.cancelling import drop_queued, drop_running
from windtunnel.serving.event_loop.kernels.events import file_event, push, remove_first
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
)
from windtunnel.serving.event_loop.kernels.state import Array, Events, Graph, Loop, Record, first_joint, lane_of


@pasted
def _count_over(graph: Graph, n: int, counts: Record) -> None:
    """Count a node as over, and its task with the last of its nodes."""
    graph.left[graph.task[n]] -= 1
    if graph.left[graph.task[n]] == 0:
        counts.tasks_over += 1


@helper
def _serve_joint(graph: Graph, j: int, event: int, events: Events, now: float) -> None:
    """Begin the service of joint j; `event` is the number of its end."""
    joint = graph.joints[j]
    joint.state = IN_SERVICE
    file_event(events, event, now + joint.seconds)


@helper
def free_slot(graph: Graph, j: int, first_event: int, events: Events, now: float) -> None:
    """Give the slot of joint j to the one that has waited longest; `first_event` is the end of joint 0."""
    if graph.joints[j].server < 0:
        return
    own = graph.servers[graph.joints[j].server]
    own.free += 1
    first = own.first
    while own.waiting > 0:
        following = graph.line[first]
        remove_first(graph.line[first:], graph.ready_s[first:], own.waiting)
        own.waiting -= 1
        if graph.joints[following].state == QUEUED:
            own.free -= 1
            _serve_joint(graph, following, first_event + following, events, now)
            return


@helper
def _open_joint(graph: Graph, j: int, first_event: int, events: Events, now: float) -> bool:
    """Begin, or queue, joint j, for which nothing is left to wait; returns whether it is over at once."""
    joint = graph.joints[j]
    if joint.state != OPEN:
        return False
    if joint.server < 0 and joint.seconds == 0.0:
        return True
    if joint.server >= 0:
        own = graph.servers[joint.server]
        if own.free == 0:
            joint.state = QUEUED
            push(graph.line[own.first :], graph.ready_s[own.first :], own.waiting, j, now)
            own.waiting += 1
            return False
        own.free -= 1
    _serve_joint(graph, j, first_event + j, events, now)
    return False


@pasted
def _cancel_joint(loop: Loop, j: int, now: float) -> bool:
    """Take joint j back; returns whether it was not over yet."""
    joint = loop.graph.joints[j]
    was = joint.state
    if was == OVER or was == TAKEN_BACK:
        return False
    joint.state = TAKEN_BACK
    if was == IN_SERVICE:
        free_slot(loop.graph, j, first_joint(loop.requests), loop.events, now)
    return True


@pasted
def _cancel_call(loop: Loop, n: int, now: float) -> bool:
    """Take call n back, which may be new, waiting or running; returns whether it is over at once."""
    fleet, requests = loop.fleet, loop.requests
    q = requests[n]
    q.cancel = 1
    if q.state == NEW:
        q.state = CANCELLED
        return True
    k = q.instance
    lane = lane_of(fleet, k)
    one = lane.instance
    if q.state == WAITING:
        drop_queued(one, lane.queues, requests, n, now)
        fleet.tokens[k] -= q.input + q.output
        fleet.fresh[k] = True
        loop.counts[0].touched += 1
        return True
    if one.mode == IDLE:  # between two iterations
        drop_running(lane, requests, loop.tree, n, now)
        if lane.limits.caching and q.keep < 0.0:
            forget(one, loop.tree, n)
        fleet.tokens[k] -= q.input + q.output
        return True
    q.behind = one.cancelled
    one.cancelled = n
    if one.mode == RUN:
        cut_run(one, lane.limits, now)
    return False


@helper
def _cancel(loop: Loop, n: int, top: int, now: float) -> int:
    """Take node n back, if it is not over; returns the height of the stack."""
    graph = loop.graph
    count = len(graph.task) - len(graph.joints)
    if n >= count:
        if not _cancel_joint(loop, n - count, now):
            return top
        _count_over(graph, n, loop.counts[0])
    else:
        q = loop.requests[n]
        if q.cancel or q.state == DONE or q.state == REJECTED:
            return top
        if _cancel_call(loop, n, now):
            _count_over(graph, n, loop.counts[0])
    graph.stack[top] = -1 - n
    return top + 1


@pasted
def _cancel_all(loop: Loop, joint: Record, top: int, now: float) -> int:
    """Take back what a joint cancels once it is over; returns the height of the stack."""
    count = len(loop.graph.task) - len(loop.graph.joints)
    calls = joint.calls_to - joint.calls_from
    for j in range(calls + joint.joints_to - joint.joints_from):
        c = np.int64(joint.calls_from + j) if j < calls else count + joint.joints_from + j - calls
        top = _cancel(loop, c, top, now)
    return top


@pasted
def _spare_children(loop: Loop, n: int, top: int, now: float) -> int:
    """Cancel children of the cancelled node n that cannot begin any more; returns the height of the stack."""
    graph = loop.graph
    for e in range(graph.start[n], graph.start[n + 1]):
        c = np.int64(graph.children[e])
        graph.slack[c] -= 1
        if graph.slack[c] < 0 and graph.pending[c] > 0:
            top = _cancel(loop, c, top, now)
    return top


@pasted
def _release_children(loop: Loop, n: int, top: int, now: float) -> int:
    """Send or serve what waited for node n alone; returns the height of the stack, on which joints over at once lie."""
    graph, requests = loop.graph, loop.requests
    count = len(graph.task) - len(graph.joints)
    for e in range(graph.start[n], graph.start[n + 1]):
        c = np.int64(graph.children[e])
        graph.pending[c] -= 1
        if graph.pending[c] != 0:
            continue
        if c < count:
            if requests[c].state == NEW:
                file_event(loop.events, c, now + requests[c].delay)
        elif _open_joint(graph, c - count, first_joint(requests), loop.events, now):
            graph.stack[top] = c
            top += 1
    return top


@pasted
def _bring_on(loop: Loop, n: int, now: float) -> None:
    """Act on node n, which is over, and on all that is over by that: what it cancels, what waited for it."""
    graph = loop.graph
    count = len(graph.task) - len(graph.joints)
    graph.stack[0] = n
    top = 1
    while top > 0:
        top -= 1
        n = graph.stack[top]
        if n < 0:
            top = _spare_children(loop, -1 - n, top, now)
            continue
        if n >= count:
            joint = graph.joints[n - count]
            joint.state = OVER
            joint.over = now
            top = _cancel_all(loop, joint, top, now)
        _count_over(graph, n, loop.counts[0])
        top = _release_children(loop, n, top, now)


@helper
def send_heads(order: Array, task: Array, counts: Record, events: Events, at: float) -> None:
    """Send what a closed loop sends next: one request, or all those that the next task begins with.

    Args:
        order: requests that nothing brings on, in order; `counts.sent` of them are sent.
        task: of each node of the graph of calls; empty without one.
        counts: of the loop.
        events: to come.
        at: seconds at which they are sent.
    """
    if counts.sent >= len(order):
        return
    first = order[counts.sent]
    file_event(events, first, at)
    counts.sent += 1
    while len(task) > 0 and counts.sent < len(order) and task[order[counts.sent]] == task[first]:
        file_event(events, order[counts.sent], at)
        counts.sent += 1


@pasted
def _tasks_ended(loop: Loop, follow: int, delay: float, now: float) -> None:
    """Act on tasks that are over: what follows the call that ended the first, or the next tasks of a closed loop."""
    counts = loop.counts[0]
    ended = counts.tasks_over
    counts.tasks_over = 0
    if ended > 0 and follow >= 0:
        file_event(loop.events, follow, now + delay)
        ended -= 1
    if loop.fleet.limits[0].concurrency:
        while ended > 0:
            send_heads(loop.order, loop.graph.task, counts, loop.events, now)
            ended -= 1


@pasted
def act_on_end(loop: Loop, over: int, now: float) -> None:
    """Act on what is over: what it brings on.

    Args:
        loop: all of it.
        over: a request that is done, rejected or cancelled, or the number of requests + a joint whose service ends.
        now: seconds.
    """
    graph, requests, counts = loop.graph, loop.requests, loop.counts[0]
    closed = loop.fleet.limits[0].concurrency > 0
    follow, delay = np.int64(-1), 0.0
    if over < len(requests):
        follow, delay = np.int64(requests[over].follow), requests[over].delay
    if len(graph.task) == 0:
        if follow >= 0:
            file_event(loop.events, follow, now + delay)
        elif closed:
            send_heads(loop.order, graph.task, counts, loop.events, now + delay)
        return
    if over < len(requests) and requests[over].state == CANCELLED:
        _count_over(graph, over, counts)
    else:
        _bring_on(loop, _node_of(over, len(requests), len(graph.task) - len(graph.joints)), now)
    _tasks_ended(loop, follow, delay, now)


@helper
def _node_of(over: int, requests: int, calls: int) -> int:
    """Node of the graph of what is over: a call, its answer on another instance, or a joint."""
    if over >= requests:
        return calls + over - requests
    return over if over < calls else over - calls
